import AnabranchCore

/// The reason why a token is not accepted. The text never contains parts of the token.
struct TokenError: Error, Equatable, Sendable, CustomStringConvertible {
    let description: String

    init(_ reason: StaticString) { description = "\(reason)" }

    static let expired = TokenError("expired")
    /// The issuer's keys are missing, which is not the token's fault.
    static let noKeys = TokenError("the issuer does not hand out its keys now")
}

/// A JSON web token, parsed by stricter rules than those of RFC 7515. Its contents are not trusted before `verify`.
struct JSONWebToken: Sendable {
    /// The longest token, in bytes.
    static let bytesMax = 8 << 10

    /// `alg` of the header.
    let algorithm: String
    /// `kid` of the header.
    let keyIdent: String?
    /// True if the token has the form of Realm Object Server.
    let isOfObjectServer: Bool
    private let claims: [String: JSONValue]
    private let signedBytes: [UInt8]
    private let signature: [UInt8]

    /// - Parameter takesBase64: whether the parts can also have padding, and the alphabet of e-mails.
    init(_ text: String, takesBase64: Bool = false) throws(TokenError) {
        guard !text.isEmpty else { throw TokenError("there is none") }
        let parts = try Self.parts(of: text, separator: ".")
        guard parts.count == 3 else { throw TokenError("not three parts") }
        func decode(_ part: ArraySlice<UInt8>) -> [UInt8]? {
            takesBase64 ? Base64URL.decode(anyAlphabet: part) : Base64URL.decode(part)
        }
        guard let header = decode(parts[0]), let payload = decode(parts[1]), let signature = decode(parts[2]) else {
            throw TokenError("not Base64url")
        }
        guard !signature.isEmpty else { throw TokenError("no signature") }
        (self.signature, isOfObjectServer) = (signature, false)
        signedBytes = Array(text.utf8.dropLast(parts[2].count + 1))

        let fields = try Self.object(header)
        // A token with critical fields must be refused by a reader that does not know them.
        guard fields["crit"] == nil else { throw TokenError("critical header fields") }
        guard let algorithm = fields["alg"]?.string else { throw TokenError("no algorithm") }
        self.algorithm = algorithm
        if let type = fields["typ"] {
            guard type.string?.uppercased() == "JWT" else { throw TokenError("another type of token") }
        }
        if let ident = fields["kid"] {
            guard let ident = ident.string else { throw TokenError("the key's ident is not text") }
            keyIdent = ident
        } else {
            keyIdent = nil
        }
        claims = try Self.object(payload)
    }

    /// A token in the form of Realm Object Server: claims and their RS256 signature, in Base64, with a colon between
    /// them (`Spec/Forks.md`, section 3).
    init(ofObjectServer text: String) throws(TokenError) {
        let parts = try Self.parts(of: text, separator: ":")
        guard parts.count == 2, let payload = Base64URL.decode(anyAlphabet: parts[0]),
            let signature = Base64URL.decode(anyAlphabet: parts[1])
        else { throw TokenError("not two parts in Base64") }
        (algorithm, keyIdent, signedBytes, self.signature) = ("RS256", nil, payload, signature)
        isOfObjectServer = true
        claims = try Self.object(payload)
    }

    private static func parts(of text: String, separator: Unicode.Scalar) throws(TokenError) -> [ArraySlice<UInt8>] {
        guard text.utf8.count <= bytesMax else { throw TokenError("too long") }
        return Array(text.utf8).split(separator: UInt8(ascii: separator), omittingEmptySubsequences: false)
    }

    private static func object(_ bytes: [UInt8]) throws(TokenError) -> [String: JSONValue] {
        guard let members = try? JSONValue(parsing: bytes).object else { throw TokenError("not a JSON object") }
        return members
    }

    /// The claims, if one of the keys has signed them. The algorithm is the key's; the header has to agree. The key is
    /// the one that the token names; a key without a name, as in PEM, can have signed any token, and a token without a
    /// place for a name can be of any key.
    func verify(with keys: [TokenKey]) throws(TokenError) -> TokenClaims {
        let named = keyIdent.flatMap { ident in keys.first { $0.ident == ident } }
        let isOfAnyKey = isOfObjectServer || (keyIdent == nil && keys.count == 1)
        let candidates = named.map { [$0] } ?? (isOfAnyKey ? keys : keys.filter { $0.ident == nil })
        guard !candidates.isEmpty else { throw TokenError(keyIdent == nil ? "no key named" : "unknown key") }
        let fitting = candidates.filter { $0.algorithm == algorithm }
        guard !fitting.isEmpty else { throw TokenError("another algorithm than the key's") }
        guard fitting.contains(where: { $0.verify(signature, signs: signedBytes) }) else {
            throw TokenError("wrong signature")
        }
        return TokenClaims(members: claims)
    }

    /// The claims as an issuer's, with the signature unchecked: to choose the keys, and for development.
    var unverified: TokenClaims { TokenClaims(members: claims).ofIssuer }

    /// Makes a token with the given claims.
    static func sign(_ claims: [String: JSONValue], with key: TokenKey) throws(TokenError) -> String {
        var header: [String: JSONValue] = ["alg": .string(key.algorithm), "typ": "JWT"]
        if let ident = key.ident { header["kid"] = .string(ident) }
        let parts = [JSONValue.object(header), .object(claims)].map { Base64URL.encode($0.encoded.utf8) }
        let signed = parts.joined(separator: ".")
        return signed + "." + Base64URL.encode(try key.sign(Array(signed.utf8)))
    }
}

/// The claims of a token whose signature is right.
struct TokenClaims: Sendable {
    /// The difference that the clocks of two machines may have, in seconds.
    static let clockSkewSecondsMax: Int64 = 60
    /// The last second of the year 9999. Later times are refused.
    private static let timeMax: Int64 = 253_402_300_799

    let members: [String: JSONValue]

    /// The claims of an issuer, which writes them as its library does: a null counts as missing, and the fraction of a
    /// time is dropped, since some programs take a clock's seconds as they are (RFC 7519, section 2).
    var ofIssuer: TokenClaims {
        let times: Set = ["exp", "expires", "nbf", "iat", "timestamp"]
        var claims = members.filter { $0.value != .null }
        for name in times {
            if case .real(let seconds)? = claims[name], let whole = Int64(exactly: seconds.rounded(.down)) {
                claims[name] = .integer(whole)
            }
        }
        return TokenClaims(members: claims)
    }

    func text(_ name: String) throws(TokenError) -> String {
        guard let text = members[name]?.string, !text.isEmpty else { throw TokenError("a claim is missing") }
        return text
    }

    /// The name by which an issuer knows the user.
    func subject(_ name: String) throws(TokenError) -> String {
        let subject = try text(name)
        guard subject.utf8.count <= 255 else { throw TokenError("the subject is too long") }
        // A database may end a text there: it would be the name of another user.
        guard !subject.utf8.contains(0) else { throw TokenError("the subject has a NUL") }
        return subject
    }

    /// A time, in seconds since 1970; nil if the claim is missing.
    func time(_ name: String) throws(TokenError) -> Int64? {
        guard let value = members[name] else { return nil }
        guard let time = value.integer, (0...Self.timeMax).contains(time) else {
            throw TokenError("a time is out of range or no integer")
        }
        return time
    }

    /// Refuses a token that is not valid yet, that has expired, or that has no `exp`.
    func checkTimes(now: Int64) throws(TokenError) {
        guard let expiry = try time("exp") else { throw TokenError("no expiry") }
        guard now < expiry else { throw .expired }
        try checkStart(["nbf", "iat"], now: now)
    }

    /// Refuses a token if one of these times is in the future.
    func checkStart(_ names: [String], now: Int64) throws(TokenError) {
        for name in names {
            if let start = try time(name), start > now + Self.clockSkewSecondsMax {
                throw TokenError("not valid yet")
            }
        }
    }

    /// True if the audience is in `aud`, which is a string or a list of strings.
    func isFor(_ audience: String) -> Bool {
        switch members["aud"] {
        case .string(let text): text.hasBytes(of: audience)
        case .array(let values): values.contains(.string(audience)) && values.allSatisfy { $0.string != nil }
        default: false
        }
    }
}
