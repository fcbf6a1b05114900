/// The things that a changeset can conflict with, as hash values that may be stored: the keys of an index that finds
/// the log entries which an upload has to be merged with (`Spec/History.md`, section 15).
///
/// The names are those of transactions: a log entry none of whose `writes` is among the `reads` of an upload cannot
/// change the upload, nor be changed by it. Two things can have one hash value; then an entry is merged without need.
package struct ConflictKeys: Equatable, Sendable {
    /// The keys under which a log entry is stored in the index; ascending, each once.
    package var writes: [UInt64]
    /// The keys under which an upload looks for log entries; ascending, each once.
    package var reads: [UInt64]
    /// An upload that erases a class can meet any log entry: the erasure spreads to the columns that link to the class.
    package var readsEverything = false

    package init(writes: [UInt64], reads: [UInt64], readsEverything: Bool = false) {
        (self.writes, self.reads, self.readsEverything) = (writes, reads, readsEverything)
    }

    /// True if an upload looks for entries under a key.
    package func isRead(_ key: UInt64) -> Bool {
        if readsEverything { return true }
        var range = reads.indices
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            if reads[middle] == key { return true }
            range = reads[middle] < key ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return false
    }

    /// Adds the keys of other changesets.
    package mutating func merge(_ others: [ConflictKeys]) {
        if reads.isEmpty, writes.isEmpty, others.count == 1 { return self = others[0] }
        writes = (writes + others.flatMap(\.writes)).sortedUnique()
        reads = (reads + others.flatMap(\.reads)).sortedUnique()
        readsEverything = readsEverything || others.contains(where: \.readsEverything)
    }

    /// The key under which the instructions on an object are stored.
    package static func object(_ object: ObjectAddress) -> UInt64 {
        ConflictHash(object.key, ConflictHash(object.className[...])).value(.object)
    }

    /// The key under which an EraseTable of the class is stored.
    package static func erasure(ofClass name: [UInt8]) -> UInt64 { ConflictHash(name[...]).value(.erasedClass) }

    /// The key under which an EraseColumn of the column is stored.
    package static func erasure(of column: ColumnName) -> UInt64 {
        ConflictHash(column.className[...]).joined(with: column.field[...]).value(.erasedColumn)
    }
}

extension ChangesetArena {
    /// The conflict keys of a changeset's live instructions.
    package func conflictKeys(of changeset: ChangesetIndex) -> ConflictKeys {
        var collector = ConflictKeyCollector()
        var className: (name: NameID, hash: ConflictHash)?
        var latest = ObjectKeyID.none
        for index in instructionIndices(of: changeset) {
            let instruction = self[index]
            let hash: ConflictHash
            if let known = className, known.name == instruction.className {
                hash = known.hash
            } else {
                hash = ConflictHash(bytes(of: instruction.className))
                className = (instruction.className, hash)
                collector.reads.append(hash.value(.erasedClass))
            }
            collector.add(instruction, hash, of: self)
            collector.compact()
            guard instruction.object != .none, instruction.object != latest else { continue }
            latest = instruction.object
            let object = ConflictHash(objects.keys[Int(latest.rawValue)], hash, of: self).value(.object)
            collector.writes.append(object)
            collector.reads.append(object)
        }
        return ConflictKeys(
            writes: collector.writes.sortedUnique(), reads: collector.reads.sortedUnique(),
            readsEverything: collector.readsEverything)
    }
}

extension ChangesetArena {
    /// The key under which the instructions on an object are stored.
    ///
    /// - Parameter number: The number, from 0, of a live instruction of the changeset that is about the object.
    package func conflictKey(ofObjectIn changeset: ChangesetIndex, at number: Int) -> UInt64 {
        let instruction = self[instructionIndices(of: changeset)[number]]
        let className = ConflictHash(bytes(of: instruction.className))
        return ConflictHash(objects.keys[Int(instruction.object.rawValue)], className, of: self).value(.object)
    }
}

private struct ConflictKeyCollector {
    var writes: [UInt64] = []
    var reads: [UInt64] = []
    var readsEverything = false
    /// The number of keys at which those that are there more than once go: all updates of a column have the same.
    private var countMax = 4_096

    mutating func compact() {
        guard max(writes.count, reads.count) > countMax else { return }
        (writes, reads) = (writes.sortedUnique(), reads.sortedUnique())
        countMax = max(countMax, 2 * max(writes.count, reads.count))
    }

    /// Adds all but the object and the erasure of the class: the pairs of `Spec/Transform.md`, section 7, that do not
    /// need an object.
    mutating func add(_ instruction: Instruction, _ className: ConflictHash, of arena: ChangesetArena) {
        switch instruction.kind {
        case .eraseTable:
            writes.append(className.value(.erasedClass))
            readsEverything = true
        case .addTable:
            writes.append(className.value(.declaredClass))
            reads.append(className.value(.declaredClass))
        case .addColumn:
            let column = className.joined(with: arena.bytes(of: instruction.field))
            writes.append(column.value(.declaredColumn))
            writes.append(column.value(.columnUse))
            reads.append(column.value(.declaredColumn))
            reads.append(column.value(.erasedColumn))
            if instruction.type == .link {
                reads.append(ConflictHash(arena.bytes(of: instruction.target)).value(.erasedClass))
            }
        case .eraseColumn:
            let column = className.joined(with: arena.bytes(of: instruction.field))
            writes.append(column.value(.erasedColumn))
            reads.append(column.value(.erasedColumn))
            reads.append(column.value(.columnUse))
        case .update:
            let column = className.joined(with: arena.bytes(of: instruction.field))
            writes.append(column.value(.columnUse))
            reads.append(column.value(.erasedColumn))
        default: break
        }
    }
}

/// A fixed function: its values are stored, so it must never change.
private struct ConflictHash {
    enum Kind: UInt64 {
        case object = 1, declaredClass, erasedClass, declaredColumn, erasedColumn, columnUse
    }

    private var state: UInt64

    init(_ name: ArraySlice<UInt8>) {
        state = 0x2545_F491_4F6C_DD1D
        mix(name)
    }

    /// A class and a primary key.
    init(_ key: ObjectKey, _ className: ConflictHash, of arena: borrowing ChangesetArena) {
        self = className
        mix(UInt64(UInt8(bitPattern: key.type.rawValue)))
        if key.type == .string {
            mix(arena.bytes(of: NameID(UInt32(truncatingIfNeeded: key.word0))))
        } else {
            mix(key.word0)
            mix(key.word1)
        }
    }

    /// The same of a key that is in no arena.
    init(_ key: PrimaryKey, _ className: ConflictHash) {
        self = className
        let type: PayloadType, words: (UInt64, UInt64)
        switch key {
        case .string(let text):
            mix(UInt64(UInt8(bitPattern: PayloadType.string.rawValue)))
            mix(text[...])
            return
        case .null: (type, words) = (.null, (0, 0))
        case .int(let value): (type, words) = (.int, (UInt64(bitPattern: value), 0))
        case .globalKey(let value): (type, words) = (.globalKey, (value.high, value.low))
        case .objectID(let value): (type, words) = (.objectID, (value.low, value.high))
        case .uuid(let value): (type, words) = (.uuid, (value.low, value.high))
        }
        mix(UInt64(UInt8(bitPattern: type.rawValue)))
        mix(words.0)
        mix(words.1)
    }

    func joined(with name: ArraySlice<UInt8>) -> ConflictHash {
        var result = self
        result.mix(name)
        return result
    }

    func value(_ kind: Kind) -> UInt64 {
        var result = self
        result.mix(kind.rawValue)
        return result.state
    }

    private mutating func mix(_ word: UInt64) {
        let product = (state ^ word).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        state = product.high ^ product.low ^ word
    }

    private mutating func mix(_ bytes: ArraySlice<UInt8>) {
        var word: UInt64 = 0
        var count = 0
        for byte in bytes {
            word |= UInt64(byte) << UInt64(8 * (count & 7))
            count += 1
            if count & 7 == 0 {
                mix(word)
                word = 0
            }
        }
        mix(word)
        mix(UInt64(count))
    }
}
