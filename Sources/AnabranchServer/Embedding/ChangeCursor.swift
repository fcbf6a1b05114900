public import AnabranchCore

/// A place in the log of a synced file, behind one of its transactions. Its text is to be stored together with what
/// was made of the transactions up to there.
public struct ChangeCursor: Hashable, Sendable, LosslessStringConvertible {
    let place: SaltedVersion

    /// The number of the log entry that it is behind.
    public var version: ServerVersion { place.version }

    init(_ place: SaltedVersion) { self.place = place }

    /// Before the first transaction.
    public static let beginning = ChangeCursor(SaltedVersion())

    /// Reads a `description`; nil if it is none.
    public init?(_ description: String) {
        let numbers = description.split(separator: "-", omittingEmptySubsequences: false).map { UInt64($0) }
        guard numbers.count == 2, let version = numbers[0], let salt = numbers[1] else { return nil }
        self.init(SaltedVersion(version: ServerVersion(rawValue: version), salt: Salt(rawValue: salt)))
    }

    /// The version, and a number by which the server notices that the cursor is of another log.
    public var description: String { "\(place.version)-\(place.salt)" }
}
