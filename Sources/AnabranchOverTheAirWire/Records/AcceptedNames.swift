import AnabranchCore
import AnabranchHistory
import AnabranchPropertyList

/// The names of the sets of changes of a device that were accepted, the newest last, and when that was, in seconds
/// since 1970. They stand in one value of a row: many values take longer to read and to write than all else of it.
struct AcceptedNames {
    private(set) var entries: [(name: String, time: UInt64)] = []

    /// How many names are kept.
    private static let countMax = 64

    /// - Throws: `storeDamaged` if a name or its time is cut off.
    init(_ row: PropertyListDictionary) throws(HistoryError) {
        guard let bytes = row["accepted"]?.data else {
            // As rows were before.
            let times = row["times"]?.array ?? []
            entries = zip(row.texts("names"), times).map { ($0, UInt64(clamping: $1.integer ?? 0)) }
            return
        }
        var rest = bytes[...]
        while !rest.isEmpty {
            let (texts, tail) = try RowKey.texts(1, of: rest)
            guard tail.count >= 8 else { throw HistoryError(.storeDamaged, "the time of a name is cut off") }
            entries.append((texts[0], tail.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }))
            rest = tail.dropFirst(8)
        }
    }

    var names: [String] { entries.map { $0.name } }

    func write(to row: inout PropertyListDictionary) {
        var bytes = RowKey()
        for (name, time) in entries {
            bytes.append(name)
            bytes.append(time)
        }
        (row["accepted"], row["names"], row["times"]) = (.data(bytes.bytes), nil, nil)
    }

    /// Adds a name, and forgets those that came too many days ago.
    mutating func append(_ name: String, at time: UInt64, days: UInt64) {
        entries.append((name, time))
        let oldest = time - min(time, days * 86_400)
        // The last two are needed whenever the device comes again.
        while entries.count > 2, entries.count > Self.countMax || entries[0].time < oldest { entries.removeFirst() }
    }

    /// Forgets the newest names.
    mutating func removeLast(_ count: Int) { entries.removeLast(min(count, entries.count)) }

    /// Gives the last name another form.
    /// - Returns: false if there is none, or it is that one already.
    mutating func renameLast(to name: String, at time: UInt64) -> Bool {
        guard let last = entries.last, !last.name.hasBytes(of: name) else { return false }
        entries[entries.count - 1] = (name, time)
        return true
    }
}
