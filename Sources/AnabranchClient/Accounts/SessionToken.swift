import AnabranchCore

/// A token that the server has issued to a client, as far as the client reads it (`Spec/Protocol.md`, section 1.5).
/// Nobody but the server checks the signature.
struct SessionToken: Equatable, Sendable {
    /// The token as it was received.
    let text: String
    /// The time when it expires, in seconds since 1970.
    let expiry: Int64
    /// The user's custom data, a JSON object; nil if the token has none.
    let customData: String?

    /// The remaining lifetime below which a token counts as expired, in seconds.
    static let leewaySeconds: Int64 = 5

    /// - Returns: nil if the text is no such token.
    init?(_ text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, !parts.contains(where: \.isEmpty), let payload = Self.decode(parts[1]),
            let claims = try? JSONValue(parsing: payload).object,
            let expiry = claims["exp"]?.integer, claims["iat"]?.integer != nil
        else { return nil }
        // It stands in headers and URLs as it is.
        guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) && !"#&\"<>".utf8.contains($0) }) else { return nil }
        self.text = text
        self.expiry = expiry
        customData = claims["user_data"].flatMap { $0.object == nil ? nil : $0.encoded }
    }

    /// Decodes Base64 or Base64url, with or without padding.
    private static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        var digits = text.filter { $0 != UInt8(ascii: "=") }.map { byte in
            switch byte {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: byte
            }
        }
        digits += [UInt8](repeating: UInt8(ascii: "="), count: (4 - digits.count % 4) % 4)
        return Base64.decode(digits)
    }

    /// True if a new token has to be fetched first: this one has expired, or is about to.
    func hasEnded(at now: Int64) -> Bool { expiry <= now + Self.leewaySeconds }
}
