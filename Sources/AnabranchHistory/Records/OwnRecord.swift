import AnabranchCore

/// The records that the history itself keeps along with its log. They have space 0, which no door uses, and a version
/// as their key.
enum OwnRecord: UInt8 {
    /// Times of integration (`Spec/History.md`, section 18).
    case times = 1
    /// Decisions about objects of a version (`Spec/History.md`, section 19).
    case decisions = 2

    static let space: UInt16 = 0

    /// The record of a version.
    func place(of version: ServerVersion) -> RecordPlace {
        RecordPlace(space: Self.space, kind: rawValue, key: Self.key(version))
    }

    /// The records of the versions in a range.
    func range(from first: ServerVersion, upTo end: ServerVersion? = nil) -> RecordRange {
        RecordRange(space: Self.space, kind: rawValue, from: Self.key(first), to: end.map(Self.key))
    }

    /// The highest byte first: keys sort like versions.
    private static func key(_ version: ServerVersion) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: version.rawValue >> (56 - 8 * $0)) }
    }
}

extension SyncedFile {
    /// The most records of a kind that go with one trim. Others go with the next.
    private static let erasedMax = 256

    /// Changes that erase the records of entries that a trim takes out of the log. Times stay with an archive, and the
    /// last of them has the time of the first entry that stays.
    func recordsErased(by trim: Trim) throws(HistoryError) -> [RecordChange] {
        try read { view throws(HistoryError) in
            func records(_ kind: OwnRecord, upTo end: ServerVersion) throws(HistoryError) -> [DoorRecord] {
                try view.records(in: kind.range(from: 0, upTo: end), countMax: Self.erasedMax, isReversed: false)
            }
            let times = trim.keep == .drop ? try records(.times, upTo: trim.version + 2).dropLast() : []
            let erased = try times + records(.decisions, upTo: trim.version + 1)
            return erased.map { RecordChange(place: $0.place, value: nil) }
        }
    }
}
