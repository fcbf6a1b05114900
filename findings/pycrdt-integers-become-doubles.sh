#!/usr/bin/env bash
# An integer of a pycrdt map is read as an integer by its writer and as a double by everybody else, but only if a
# double can hold it: 2^53 and 2^60 change, 2^53 + 1 and 2^60 + 1 do not.
#
# pycrdt 0.14.13 (the Yrs implementation of Yjs), run with CPython 3.11.
#
# Expected: numbers below 2^53 are doubles, as in JavaScript, and larger ones are 64-bit integers, as Yjs has them
# (BigInt). So they come back as integers from `map["v"]`; what the writer reads is what a peer reads.
# Seen: the update has a large integer as a float (tag 7c) or a double (tag 7b) where that loses no digit, else as a
# 64-bit integer (tag 7a). The writer's own copy is not touched. After one exchange two replicas with equal state
# vectors have values of different types for one key, and the writer's own changes as well when it opens its file.
#
#     9007199254740992: writer int, peer float, tag 7c       9007199254740993: writer int, peer int, tag 7a
#     1152921504606846976: writer int, peer float, tag 7c    9223372036854775807: writer int, peer float, tag 7c
#
# The last one is no number that a double holds: 2^63 - 1 is sent as 2^63, so there the value changes, too.
#
# For a sync engine: a type that depends on the value is no type. Whoever bridges such documents must not infer
# "Int" or "Double" from what one replica shows, must not hash or compare states by the values a replica reads, and has
# to keep counters, snowflake ids and 64-bit times as text.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pycrdt==0.14.13

"$folder/venv/bin/python" - <<'PYTHON'
import sys
from pycrdt import Doc, Map

known = {
    2**53 - 1: ("float", "float", "7b", 2**53 - 1),
    2**53: ("int", "float", "7c", 2**53),
    2**53 + 1: ("int", "int", "7a", 2**53 + 1),
    2**53 + 2: ("int", "float", "7b", 2**53 + 2),
    2**60: ("int", "float", "7c", 2**60),
    2**60 + 1: ("int", "int", "7a", 2**60 + 1),
    2**63 - 1: ("int", "float", "7c", 2**63),
    -(2**63): ("int", "float", "7c", -(2**63)),
}
for value, was in known.items():
    writer, peer = Doc(client_id=1), Doc(client_id=2)
    own = writer.get("m", type=Map)
    own["v"] = value
    update = writer.get_update()
    peer.apply_update(update)
    assert writer.get_state() == peer.get_state()
    read = peer.get("m", type=Map)["v"]
    tag = update[update.index(b"\x01v\x01") + 3]  # the key, one value, then its tag
    seen = (type(own["v"]).__name__, type(read).__name__, f"{tag:02x}", int(read))
    print(f"{value}: writer {seen[0]}, peer {seen[1]}, tag {seen[2]}, peer reads {seen[3]}")
    if seen != was:
        sys.exit(f"{value} was {was}")
PYTHON
