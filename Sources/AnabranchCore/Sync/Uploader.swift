/// The program that uploaded something, as far as it is known: for those who ask later why a merge came out as it did.
public struct Uploader: Hashable, Sendable {
    /// The version of its realm-core as one number: 14_005_002 is 14.5.2. 0 if it is not known.
    public var release: UInt64
    /// The version of the protocol that it spoke; 0 if it is not known.
    public var protocolVersion: UInt64

    /// Puts the numbers together.
    public init(release: UInt64 = 0, protocolVersion: UInt64 = 0) {
        self.release = release
        self.protocolVersion = protocolVersion
    }

    /// Of entries that the server made itself, and of those from before this was recorded.
    public static let unknown = Uploader()
}
