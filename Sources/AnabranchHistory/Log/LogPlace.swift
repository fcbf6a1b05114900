public import AnabranchCore

/// A place between two entries of a log, with everything that the next entry follows from.
public struct LogPlace: Equatable, Sendable {
    /// The version of the entry before the place.
    public var version: ServerVersion
    /// The cumulative size there, in bytes.
    public var cumulativeSize: UInt64
    /// The checksum of that entry, with which that of the next one is keyed.
    public var chain: Checksum

    /// Creates the place after an entry.
    public init(version: ServerVersion, cumulativeSize: UInt64, chain: Checksum) {
        self.version = version
        self.cumulativeSize = cumulativeSize
        self.chain = chain
    }
}
