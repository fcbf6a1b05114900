package import AnabranchCore
package import AnabranchHistory

/// Other names, keys and values in the place of those of a synced file, so that the shape of its history can be shown
/// to others (`Spec/Explain.md`, section 9).
package struct Anonymizer: Sendable {
    /// Names that stay, since their meaning is the system's: the primary key of flexible sync.
    private static let reservedNames = [Array("_id".utf8)]

    /// The value of a property to which nobody has written stays as well.
    private static func zeros(_ count: Int) -> [UInt8] { Array(repeating: 0, count: count) }

    private let texts: TextRanks
    private let binaries: TextRanks
    private let objectIDs: TextRanks
    private let uuids: TextRanks
    private let digits: TextRanks
    private let integers: NumberRanks
    private let seconds: NumberRanks
    private let nanoseconds: NumberRanks
    private let floats: NumberRanks
    private let doubles: NumberRanks

    init(_ census: ValueCensus, seed: UInt64) {
        var random = SplitMix(state: seed)
        texts = TextRanks(census.texts, TextRanks.text, reserving: Self.reservedNames, using: &random)
        binaries = TextRanks(census.binaries, TextRanks.binary, using: &random)
        objectIDs = TextRanks(census.objectIDs, TextRanks.binary, reserving: [Self.zeros(12)], using: &random)
        uuids = TextRanks(census.uuids, TextRanks.binary, reserving: [Self.zeros(16)], using: &random)
        digits = TextRanks(census.digits, TextRanks.digits, using: &random)
        integers = NumberRanks(census.integers, NumberRanks.integers, using: &random)
        seconds = NumberRanks(census.seconds, NumberRanks.integers, using: &random)
        nanoseconds = NumberRanks(census.nanoseconds, NumberRanks.nanoseconds, using: &random)
        floats = NumberRanks(census.floats, Float.ranks, preferring: Float.preferredRanks, using: &random)
        doubles = NumberRanks(census.doubles, Double.ranks, preferring: Double.preferredRanks, using: &random)
    }

    /// Reads all that is kept of a synced file: the log and the archive, uploads, bootstrap generations, the names of
    /// users, and the state.
    ///
    /// - Parameter seed: The same seed gives the same result for the same file.
    /// - Throws: `tooLarge` if it has too many different values; `storeDamaged`, `storeFailed`.
    package init(of view: any FileView, _ state: ObjectGraph, seed: UInt64) throws(HistoryError) {
        var census = ValueCensus()
        try census.addLog(of: view)
        try census.addUsers(of: view)
        do {
            try state.forEachValue { try census.add($0) }
        } catch let error as HistoryError {
            throw error
        } catch let error as ApplyError {
            throw HistoryError(readingStateFailed: error)
        } catch {
            throw HistoryError(.storeFailed, "\(error)")
        }
        self.init(census, seed: seed)
    }

    /// The value that stands for another one.
    package func callAsFunction(_ value: Payload) -> Payload {
        switch value {
        case .string(let text): .string(texts[text])
        case .binary(let data): .binary(binaries[data])
        case .objectID(let id): .objectID(ObjectID(objectIDs[id.bytes]) ?? id)
        case .uuid(let id): .uuid(UUIDBytes(uuids[id.bytes]) ?? id)
        case .int(let number): .int(integers[number])
        case .float(let number): .float(Float(rank: floats[number.rank]))
        case .double(let number): .double(Double(rank: doubles[number.rank]))
        case .decimal(let number): .decimal(decimal(number))
        case .timestamp(let time):
            .timestamp(
                Timestamp(
                    seconds: seconds[time.seconds],
                    nanoseconds: Int32(truncatingIfNeeded: nanoseconds[Int64(time.nanoseconds)])))
        case .link(let className, let key):
            .link(className: texts[className], key: key.replaced { self($0) })
        case .null, .bool, .objectValue, .dictionary, .list, .set, .erased: value
        }
    }

    private func decimal(_ number: Decimal128) -> Decimal128 {
        guard var parts = DecimalParts(number) else { return number }
        parts.digits = digits[parts.digits]
        return parts.decimal
    }

    /// The name that stands for another one.
    package func name(_ name: [UInt8]) -> [UInt8] { texts[name] }

    /// The object that stands for another one.
    package func object(_ object: ObjectAddress) -> ObjectAddress {
        ObjectAddress(name(object.className), object.key.replaced { self($0) })
    }

    /// The changeset with other names, keys and values, encoded again.
    /// - Throws: `ChangesetError`.
    package func changeset(_ changeset: [UInt8]) throws(ChangesetError) -> [UInt8] {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: 0, tag: OriginTag(timestamp: 0, ident: 0))
        arena.replaceValues { self($0) }
        return arena.encodedAnew(index)
    }

    /// The entry with another changeset.
    package func entry(_ entry: LogEntry) throws(HistoryError) -> LogEntry {
        var entry = entry
        do {
            entry.changeset = try changeset(entry.changeset)
        } catch {
            throw HistoryError(.storeDamaged, "version \(entry.version): \(error.reason)")
        }
        return entry
    }

    /// The author with another user.
    func author(_ author: Author) -> Author {
        Author(author, named: author.user.map { String(decoding: texts[Array($0.utf8)], as: UTF8.self) })
    }
}

/// A small generator, SplitMix64. It need not be secret: the numbers reveal nothing about the values that they replace.
private struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}

extension ValueCensus {
    private static let readBytes = 8 << 20

    fileprivate mutating func addLog(of view: any FileView) throws(HistoryError) {
        let head = try view.head()
        var version = head.baseVersion
        while version > 0 {
            let entries = try view.archivedEntries(upTo: version)
            guard let oldest = entries.first, oldest.version <= version else { break }
            for entry in entries { try add(entry.changeset) }
            version = oldest.version - 1
        }
        for generation in try view.generations() {
            try addEntries(
                of: LineageView(generation, in: view), in: VersionRange(after: 0, through: generation.version))
        }
        try addEntries(of: view, in: VersionRange(after: head.baseVersion, through: head.version))
        // Also those of which nothing was left.
        for number in head.baseVersion.rawValue..<max(head.baseVersion, head.version).rawValue {
            guard let upload = try view.received(ServerVersion(rawValue: number + 1)) else { continue }
            try add(upload.changeset)
        }
    }

    private mutating func addEntries(of view: any FileView, in range: VersionRange) throws(HistoryError) {
        var base = range.base
        while base < range.last {
            let rest = VersionRange(after: base, through: range.last)
            let entries = try view.entries(in: rest, excludingOrigin: nil, byteBudget: Self.readBytes)
            guard let last = entries.last else { return }
            for entry in entries { try add(entry.changeset) }
            base = last.version
        }
    }

    fileprivate mutating func addUsers(of view: any FileView) throws(HistoryError) {
        var last = ClientFileID(rawValue: 0)
        while true {
            let files = try view.clientFiles(after: last, countMax: 1000)
            for file in files { if let user = file.user { try add(.string(Array(user.utf8))) } }
            guard let next = files.last?.ident else { return }
            last = next
        }
    }
}
