import AnabranchCore

/// Why a token is not accepted. The text never contains parts of the token.
struct TokenError: Error, Equatable, Sendable, CustomStringConvertible {
    let description: String

    init(_ reason: StaticString) { description = "\(reason)" }
}

/// A JSON web token, parsed by stricter rules than those of RFC 7515. Its contents are not trusted before `verify`.
struct JSONWebToken: Sendable {
    /// Longest token, in bytes.
    static let bytesMax = 8 << 10

    /// `alg` of the header.
    let algorithm: String
    /// `kid` of the header.
    let keyIdent: String?
    private let claims: [String: JSONValue]
    private let signedBytes: [UInt8]
    private let signature: [UInt8]

    init(_ text: String) throws(TokenError) {
        let bytes = Array(text.utf8)
        guard bytes.count <= Self.bytesMax else { throw TokenError("too long") }
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3 else { throw TokenError("not three parts") }
        guard let header = Base64URL.decode(parts[0]), let payload = Base64URL.decode(parts[1]),
            let signature = Base64URL.decode(parts[2])
        else { throw TokenError("not Base64url") }
        guard !signature.isEmpty else { throw TokenError("no signature") }
        self.signature = signature
        signedBytes = Array(bytes.dropLast(parts[2].count + 1))

        let fields = try Self.object(header)
        // A token with critical fields must be refused by those who do not know them.
        guard fields["crit"] == nil else { throw TokenError("critical header fields") }
        guard let algorithm = fields["alg"]?.string else { throw TokenError("no algorithm") }
        self.algorithm = algorithm
        if let type = fields["typ"] {
            guard type.string?.uppercased() == "JWT" else { throw TokenError("another type of token") }
        }
        if let ident = fields["kid"] {
            guard let ident = ident.string else { throw TokenError("the key's ident is no text") }
            keyIdent = ident
        } else {
            keyIdent = nil
        }
        claims = try Self.object(payload)
    }

    private static func object(_ bytes: [UInt8]) throws(TokenError) -> [String: JSONValue] {
        guard let members = try? JSONValue(parsing: bytes).object else { throw TokenError("not a JSON object") }
        return members
    }

    /// The claims, if one of the keys has signed them. The algorithm is the key's; the header has to agree.
    func verify(with keys: [TokenKey]) throws(TokenError) -> TokenClaims {
        let key: TokenKey
        if let keyIdent {
            guard let named = keys.first(where: { $0.ident == keyIdent }) else { throw TokenError("unknown key") }
            key = named
        } else {
            guard let only = keys.first, keys.count == 1 else { throw TokenError("no key named") }
            key = only
        }
        guard key.algorithm == algorithm else { throw TokenError("another algorithm than the key's") }
        guard key.verify(signature, signs: signedBytes) else { throw TokenError("wrong signature") }
        return TokenClaims(members: claims)
    }

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
    /// How far the clocks of two machines may be apart, in seconds.
    static let clockSkewSecondsMax: Int64 = 60
    /// The last second of the year 9999. Later times are refused.
    private static let timeMax: Int64 = 253_402_300_799

    let members: [String: JSONValue]

    func text(_ name: String) throws(TokenError) -> String {
        guard let text = members[name]?.string, !text.isEmpty else { throw TokenError("a claim is missing") }
        return text
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
        guard now < expiry else { throw TokenError("expired") }
        for name in ["nbf", "iat"] {
            if let start = try time(name), start > now + Self.clockSkewSecondsMax {
                throw TokenError("not valid yet")
            }
        }
    }

    /// Whether the audience is in `aud`, which is a string or a list of strings.
    func isFor(_ audience: String) -> Bool {
        switch members["aud"] {
        case .string(let text): text.hasBytes(of: audience)
        case .array(let values): values.contains(.string(audience)) && values.allSatisfy { $0.string != nil }
        default: false
        }
    }
}
