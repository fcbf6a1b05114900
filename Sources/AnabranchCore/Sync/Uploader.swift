/// The program that uploaded something, as far as it is known: for those who ask later why a merge came out as it did.
public struct Uploader: Hashable, Sendable {
    /// The version of its realm-core as one number: 14_005_002 is 14.5.2. 0 if it is not known.
    public var release: UInt64
    /// The version of the protocol that it spoke; 0 if it is not known.
    public var protocolVersion: UInt64

    /// Creates an uploader from its numbers, with 0 for one that is not known.
    public init(release: UInt64 = 0, protocolVersion: UInt64 = 0) {
        self.release = release
        self.protocolVersion = protocolVersion
    }

    /// The uploader of entries that the server made itself, and of those from before uploaders were recorded.
    public static let unknown = Uploader()
}
