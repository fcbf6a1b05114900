/// A key with which servers sign the tokens of their users.
public struct SigningKey: Equatable, Sendable {
    /// `kid` of the tokens that it has signed.
    public var ident: String
    /// At least 32 bytes.
    public var secret: [UInt8]
    /// The time at which it was made, in seconds since 1970.
    public var createdAt: UInt64

    /// Creates a key from what is kept of it.
    public init(ident: String, secret: [UInt8], createdAt: UInt64) {
        self.ident = ident
        self.secret = secret
        self.createdAt = createdAt
    }
}
