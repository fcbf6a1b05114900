public import AnabranchCore

/// A place in the log of a synced file, after one of its transactions. Store its text together with the results of the
/// transactions up to there.
public struct ChangeCursor: Hashable, Sendable, LosslessStringConvertible {
    let place: SaltedVersion

    /// The number of the log entry before the cursor.
    public var version: ServerVersion { place.version }

    init(_ place: SaltedVersion) { self.place = place }

    /// The place before the first transaction.
    public static let beginning = ChangeCursor(SaltedVersion())

    /// Reads a `description`; nil for any other text.
    public init?(_ description: String) {
        let numbers = description.split(separator: "-", omittingEmptySubsequences: false).map { UInt64($0) }
        guard numbers.count == 2, let version = numbers[0], let salt = numbers[1] else { return nil }
        self.init(SaltedVersion(version: ServerVersion(rawValue: version), salt: Salt(rawValue: salt)))
    }

    /// The version, and a number by which the server recognises a cursor of another log.
    public var description: String { "\(place.version)-\(place.salt)" }
}
