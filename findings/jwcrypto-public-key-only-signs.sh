#!/usr/bin/env bash
# An RSA key that PyJWT has written as a JWK cannot verify its own signatures any more once jwcrypto has exported the
# public half of it; the same way is open to an EC key.
#
# PyJWT 2.15.1, jwcrypto 1.6.1, joserfc 1.8.0, cryptography 50.0.2, run with CPython 3.11.
#
# Expected: whoever exports a public key gets one for verifying. PyJWT writes `key_ops` that way: a private RSA key has
# ["sign"], its public key ["verify"], and EC keys have none.
# Seen: `JWK.export_public()` drops the private numbers and keeps `key_ops`, so the public key says ["sign"]. A
# signature of the key is then refused by joserfc and by jwcrypto itself, and accepted by PyJWT, which does not look.
#
#     RS256: PyJWT private ['sign'], public ['verify']; jwcrypto public ['sign']
#         joserfc UnsupportedKeyOperationError, jwcrypto InvalidJWSSignature, PyJWT accepts
#     ES256: PyJWT private None, public None; jwcrypto public None
#         joserfc accepts, jwcrypto accepts, PyJWT accepts
#
# For a sync server that reads the key set of an issuer: `key_ops` of a public key says what somebody once did with the
# private one. RFC 7517 has it OPTIONAL beside `use`; a server that insists on "verify" locks out the users of an
# issuer whose own tests pass, and only where its key is RSA.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check PyJWT==2.15.1 jwcrypto==1.6.1 joserfc==1.8.0 \
    cryptography==50.0.2

"$folder/venv/bin/python" - <<'PYTHON'
import json
import sys

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import jwt as joserfc_jwt
from joserfc.jwk import ECKey, RSAKey
from jwcrypto import jwk as jwcrypto_jwk
from jwcrypto import jwt as jwcrypto_jwt
from jwt.algorithms import ECAlgorithm, RSAAlgorithm


def outcome(verify):
    try:
        verify()
        return "accepts"
    except Exception as error:
        return type(error).__name__


cases = [
    ("RS256", RSAAlgorithm, RSAKey, rsa.generate_private_key(65537, 2048)),
    ("ES256", ECAlgorithm, ECKey, ec.generate_private_key(ec.SECP256R1())),
]
known = {
    "RS256": (["sign"], ["verify"], ["sign"], "UnsupportedKeyOperationError", "InvalidJWSSignature", "accepts"),
    "ES256": (None, None, None, "accepts", "accepts", "accepts"),
}
for name, algorithm, joserfc_key, key in cases:
    private = json.loads(algorithm.to_jwk(key))
    own = json.loads(algorithm.to_jwk(key.public_key()))
    public = json.loads(jwcrypto_jwk.JWK(**private).export_public())
    token = jwt.encode({"sub": "a"}, key, algorithm=name)
    seen = (
        private.get("key_ops"), own.get("key_ops"), public.get("key_ops"),
        outcome(lambda: joserfc_jwt.decode(token, joserfc_key.import_key(public), algorithms=[name])),
        outcome(lambda: jwcrypto_jwt.JWT(jwt=token, key=jwcrypto_jwk.JWK(**public))),
        outcome(lambda: jwt.decode(token, jwt.PyJWK(public, algorithm=name).key, algorithms=[name])),
    )
    print(f"{name}: PyJWT private {seen[0]}, public {seen[1]}; jwcrypto public {seen[2]}")
    print(f"    joserfc {seen[3]}, jwcrypto {seen[4]}, PyJWT {seen[5]}")
    if seen != known[name]:
        sys.exit(f"{name} was {known[name]}")
PYTHON
