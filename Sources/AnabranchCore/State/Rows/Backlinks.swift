// The links to an object are stored with it, so that finding them does not take reading all objects of all classes that
// may link to it (`Spec/State.md`, D7).

/// The row of the links from one column of an object to another object. It does not name the linking object, since
/// memory can hold millions of rows of one.
struct Backlink: Hashable {
    let target: ObjectReference
    /// The slot of the owner's column, which may hold the link deep below it.
    let slot: UInt32

    init(to target: ObjectReference, slot: Int) {
        self.target = target
        self.slot = UInt32(truncatingIfNeeded: slot)
    }

    /// The bytes that a row takes in memory until it is written or removed, besides the keys of both objects. Rows to
    /// remove are named one by one.
    static let overheadBytes = 64

    static func byteCount(from owner: ObjectReference, to target: ObjectReference) -> Int {
        overheadBytes + owner.key.byteCount + target.key.byteCount
    }

    /// The class of the rows of links to objects of a class.
    static func classID(of target: ClassID) -> ClassID { ClassID(target.rawValue | 1 << 31) }

    func address(from owner: ObjectReference) -> RowAddress {
        let key = Self.prefix(of: target) + Self.bigEndian(owner.classID.rawValue) + Self.bigEndian(slot)
        return RowAddress(classID: Self.classID(of: target.classID), key: key + owner.key.rowKey)
    }

    /// The bytes with which the keys of all links to an object begin, and no others: the length of its key comes first.
    static func prefix(of target: ObjectReference) -> [UInt8] {
        let key = target.key.rowKey
        return bigEndian(UInt32(key.count)) + key
    }

    /// The owner and its slot, from the bytes after the prefix; nil if they name none.
    static func owner(_ key: ArraySlice<UInt8>) -> (object: ObjectReference, slot: Int)? {
        guard key.count > 8, let ownerKey = PrimaryKey(rowKey: Array(key.dropFirst(8))) else { return nil }
        let number = ClassID(UInt32(word(key.prefix(4))))
        return (ObjectReference(classID: number, key: ownerKey), Int(word(key.dropFirst(4).prefix(4))))
    }

    private static func bigEndian(_ value: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: value >> UInt32(24 - 8 * $0)) }
    }
}

/// The objects that hold links to an object, or may hold some, with the slots of the columns in question.
typealias LinkOwners = [ObjectReference: Set<Int>]

extension ObjectGraph {
    /// The objects that link to an object, as its rows say. Columns and classes that were erased since may be among
    /// them.
    func storedOwners(of target: ObjectReference) throws(ApplyError) -> LinkOwners {
        guard let rows else { return [:] }
        var owners: LinkOwners = [:]
        let prefix = Backlink.prefix(of: target), classID = Backlink.classID(of: target.classID)
        // Most objects have few links, and what follows in the batch is others'.
        var batchCount = 16
        var last = prefix
        while true {
            let batch: [(key: [UInt8], row: [UInt8])]
            do {
                batch = try rows.objects(of: classID, after: last, limit: batchCount)
            } catch {
                throw ApplyError(reading: error)
            }
            for (key, row) in batch {
                guard key.starts(with: prefix) else { return owners }
                let isWritten = RowChecksum.content(of: row, at: RowAddress(classID: classID, key: key)) != nil
                guard isWritten, let (owner, slot) = Backlink.owner(key[prefix.count...]) else {
                    throw .damaged("a row of the links to \(target.key) is not what was written")
                }
                if schema.contains(owner.classID) { owners[owner, default: []].insert(slot) }
                last = key
            }
            guard batch.count == batchCount else { return owners }
            batchCount = 256
        }
    }
}

/// Counts the links of one object, before and after it was changed.
struct BacklinkTally {
    private let owner: ObjectReference
    private var counts: [Backlink: (before: Int, after: Int)] = [:]
    /// The slots that were not looked at as a whole: what stayed as it was is missing on both sides.
    private var partialSlots: Set<Int> = []
    /// The slot of the links that are counted next.
    var slot = 0

    init(from owner: ObjectReference) { self.owner = owner }

    var isPartial: Bool {
        get { partialSlots.contains(slot) }
        set { if newValue { partialSlots.insert(slot) } }
    }

    mutating func add(_ target: ObjectReference) {
        counts[Backlink(to: target, slot: slot), default: (0, 0)].after += 1
    }

    mutating func subtract(_ target: ObjectReference) {
        counts[Backlink(to: target, slot: slot), default: (0, 0)].before += 1
    }

    /// Appends the rows that have changed. The number of links that a row stands for has to be read where not all were
    /// looked at.
    func append(to writes: inout RowWrites, _ removal: inout RowRemoval, _ rows: any ObjectRows) throws(ApplyError) {
        guard !counts.isEmpty else { return }
        var changed = Array(counts.lazy.filter { $1.before != $1.after }.map(\.key))
        changed.sort { ($0.target, $0.slot) < ($1.target, $1.slot) }
        for link in changed {
            guard let (before, after) = counts[link] else { continue }
            var count = after
            if partialSlots.contains(Int(link.slot)) {
                count += (try linkCount(at: link.address(from: owner), in: rows) ?? 0) - before
            }
            if count > 0 {
                var encoder = RowEncoder()
                encoder.linkCount(count)
                writes.write(encoder.bytes, at: link.address(from: owner))
            } else {
                removal.links.append(link)
            }
        }
    }
}

extension ObjectGraph {
    /// True if the rows of links are not those that the stored objects make; what is not stored yet does not count.
    package func hasDamagedLinks() throws(ApplyError) -> Bool {
        guard let rows else { return false }
        var missing: [RowAddress: Int] = [:]
        for number in schema.present where schema[number].kind != .embedded {
            var stored = StoredObjects(of: number, in: self)
            while let (key, fields) = try stored.next() {
                let owner = ObjectReference(classID: number, key: key)
                for (slot, content) in fields.contents.enumerated() {
                    try content.forEachLink {
                        // What links to an erased class stands in an erased column.
                        guard schema.contains($0.classID) else { return }
                        missing[Backlink(to: $0, slot: slot).address(from: owner), default: 0] += 1
                    }
                }
            }
        }
        for number in schema.present {
            let classID = Backlink.classID(of: number)
            var last: [UInt8]?
            while let key = try nextKey(of: classID, after: last, in: rows) {
                let address = RowAddress(classID: classID, key: key)
                guard let count = try linkCount(at: address, in: rows), missing[address] == count else { return true }
                missing[address] = nil
                last = key
            }
        }
        return !missing.isEmpty
    }

    private func nextKey(
        of classID: ClassID, after key: [UInt8]?, in rows: any ObjectRows
    ) throws(ApplyError) -> [UInt8]? {
        do { return try rows.objects(of: classID, after: key, limit: 1).first?.key } catch {
            throw ApplyError(reading: error)
        }
    }
}

/// The number of links that a row stands for; nil if there is no row.
private func linkCount(at address: RowAddress, in rows: any ObjectRows) throws(ApplyError) -> Int? {
    let source = PartSource(address, in: rows, reads: ReadCounter())
    return try source.row().map { row throws(ApplyError) in
        try source.decode(row) { decoder throws(ChangesetError) in try decoder.linkCount() }
    }
}
