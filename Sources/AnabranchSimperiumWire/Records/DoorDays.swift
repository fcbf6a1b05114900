import AnabranchCore
import AnabranchHistory

// The days of a file, by which it is known how long changes are kept.

extension PendingRecords {
    static let daySeconds: UInt64 = 86_400

    private static func day(_ number: UInt64) -> [UInt8] {
        var writer = RecordWriter()
        writer.append(number)
        return writer.bytes
    }

    /// Records where the log ended when the first entry of a day came.
    mutating func recordDay(at now: UInt64, after position: ServerVersion, _ settings: DoorSettings)
        throws(HistoryError)
    {
        let place = RecordKind.day.place(Self.day(now / Self.daySeconds))
        guard try value(at: place) == nil else { return }
        let expiry = now + 2 * UInt64(clamping: settings.changeDays) * Self.daySeconds
        set(ChangePlace.end(of: position).bytes, at: place, expiresAt: expiry)
    }

    /// The point through which all changes are so old that they need not be kept.
    func endOfOld(now: UInt64, _ settings: DoorSettings, _ door: DoorRow) throws(HistoryError) -> ChangePlace {
        let today = now / Self.daySeconds, kept = UInt64(clamping: settings.changeDays)
        let first = today > kept ? today - kept : 0
        let range = RecordRange(space: RecordKind.space, kind: RecordKind.day.rawValue, from: Self.day(first))
        guard let record = try records(in: range, countMax: 1).first else { return door.end }
        var reader = RecordReader(record.value)
        return try reader.place()
    }
}
