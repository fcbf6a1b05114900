/// Mixes bytes and words into hash values that a peer cannot foresee: the secrets are drawn once a process.
///
/// Only the tables of an arena use it; nothing that is stored depends on it. Whatever a peer chooses is mixed with a
/// secret before it is multiplied: with a known factor on the other side it could make the product 0 and all values
/// equal.
enum SeededHash {
    private static let secrets = (random(), random(), random())

    private static func random() -> UInt64 { .random(in: .min ... .max) }

    @inline(__always)
    private static func fold(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let product = left.multipliedFullWidth(by: right)
        return product.high ^ product.low
    }

    @inline(__always)
    static func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        let secrets = secrets
        var state = secrets.0 ^ UInt64(truncatingIfNeeded: bytes.count)
        var offset = 0
        while offset + 8 <= bytes.count {
            state = fold(state ^ bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self), secrets.1)
            offset += 8
        }
        var tail: UInt64 = 0
        while offset < bytes.count {
            tail = tail << 8 | UInt64(bytes[offset])
            offset += 1
        }
        return fold(state ^ tail, secrets.2)
    }

    @inline(__always)
    static func hash(_ first: UInt64, _ second: UInt64, _ third: UInt64 = 0) -> UInt64 {
        let secrets = secrets
        let hash = fold(first ^ secrets.0, second ^ secrets.1)
        return third == 0 ? hash : fold(hash, third ^ secrets.2)
    }
}

/// Slots of an open-addressing hash table whose entries live in an array beside it.
struct HashSlots: Sendable {
    /// The upper half of an entry's hash value, and the entry's number plus one; 0 is free.
    private var slots: [UInt64] = Array(repeating: 0, count: 16)
    private(set) var count = 0

    /// The entry that `isEqual` accepts among those of the hash, or the free slot where it belongs.
    @inline(__always)
    func find(_ hash: UInt64, isEqual: (Int) -> Bool) -> (entry: Int?, slot: Int) {
        let mask = slots.count &- 1
        var slot = Int(truncatingIfNeeded: hash >> 32) & mask
        while slots[slot] != 0 {
            if slots[slot] >> 32 == hash >> 32 {
                let entry = Self.entry(slots[slot])
                if isEqual(entry) { return (entry, slot) }
            }
            slot = (slot &+ 1) & mask
        }
        return (nil, slot)
    }

    /// Gives the next number to an entry that `find` has not found.
    @inline(__always)
    mutating func insert(_ hash: UInt64, at slot: Int) -> Int {
        count &+= 1
        slots[slot] = hash & ~0xFFFF_FFFF | UInt64(count)
        if count &* 2 > slots.count { rebuild(slotCount: slots.count * 4) }
        return count &- 1
    }

    /// Forgets the entries from `count` on.
    mutating func truncate(to count: Int) {
        guard count < self.count else { return }
        self.count = count
        rebuild(slotCount: slots.count)
    }

    /// Forgets all entries.
    mutating func removeAll() {
        if count > 0 { slots.withUnsafeMutableBufferPointer { $0.update(repeating: 0) } }
        count = 0
    }

    @inline(__always)
    private static func entry(_ slot: UInt64) -> Int { Int(slot & 0xFFFF_FFFF) &- 1 }

    private mutating func rebuild(slotCount: Int) {
        let old = slots
        slots = Array(repeating: 0, count: slotCount)
        for value in old where value != 0 && Self.entry(value) < count {
            var slot = Int(value >> 32) & (slotCount - 1)
            while slots[slot] != 0 { slot = (slot + 1) & (slotCount - 1) }
            slots[slot] = value
        }
    }
}

/// The common table of the names of all changesets of an arena: classes, fields, path keys and string primary keys.
struct InternedStrings: Sendable {
    /// Where a name's bytes stand in the arena's bytes.
    struct Span: Sendable {
        var offset: UInt32
        var count: UInt32
    }

    private(set) var spans: [Span] = []
    /// The decoding in which the name was defined last: finds duplicates within one changeset (rule R5).
    private var definedIn: [UInt32] = []
    /// The current decoding. Failed ones count, since what they leave in `definedIn` must mean nothing to the next one.
    private var decoding: UInt32 = 0
    private var slots = HashSlots()

    var count: Int { spans.count }

    mutating func beginChangeset() { decoding &+= 1 }

    /// The number of a name; `isNew` is false if the current changeset has defined it before.
    ///
    /// - Parameter guess: a name that it may well be.
    @inline(__always)
    mutating func define(_ range: Range<Int>, in bytes: [UInt8], guess: NameID?) -> (name: NameID, isNew: Bool) {
        if let guess, isEqual(Int(guess.rawValue), range, in: bytes) { return redefine(Int(guess.rawValue)) }
        let (hash, found) = bytes.withUnsafeBytes { arena in
            let name = UnsafeRawBufferPointer(rebasing: arena[range])
            let hash = SeededHash.hash(name)
            return (hash, slots.find(hash) { isEqual($0, range, in: bytes) })
        }
        guard let entry = found.entry else {
            spans.append(Span(offset: UInt32(range.lowerBound), count: UInt32(range.count)))
            definedIn.append(decoding)
            return (NameID(UInt32(truncatingIfNeeded: slots.insert(hash, at: found.slot))), true)
        }
        return redefine(entry)
    }

    @inline(__always)
    private mutating func redefine(_ entry: Int) -> (name: NameID, isNew: Bool) {
        let isNew = definedIn[entry] != decoding
        definedIn[entry] = decoding
        return (NameID(UInt32(truncatingIfNeeded: entry)), isNew)
    }

    @inline(__always)
    private func isEqual(_ entry: Int, _ range: Range<Int>, in bytes: [UInt8]) -> Bool {
        let span = spans[entry]
        guard Int(span.count) == range.count else { return false }
        var (one, other) = (range.lowerBound, Int(span.offset))
        while one < range.upperBound {
            guard bytes[one] == bytes[other] else { return false }
            (one, other) = (one &+ 1, other &+ 1)
        }
        return true
    }

    mutating func truncate(to count: Int) {
        guard count < spans.count else { return }
        spans.removeLast(spans.count - count)
        definedIn.removeLast(definedIn.count - count)
        slots.truncate(to: count)
    }
}

/// A class and a primary key, by number. A String key is the number of its name.
struct ObjectKey: Equatable, Sendable {
    var className: NameID
    var type: PayloadType
    var word0: UInt64 = 0
    var word1: UInt64 = 0

    @inline(__always)
    static func == (left: ObjectKey, right: ObjectKey) -> Bool {
        left.word0 == right.word0 && left.className == right.className && left.type == right.type
            && left.word1 == right.word1
    }

    /// Keys that follow each other have slots that follow each other: objects are mostly named in order, and eight
    /// neighbours stand in one cache line.
    @inline(__always)
    var hash: UInt64 {
        let kind = UInt64(className.rawValue) << 8 | UInt64(UInt8(bitPattern: type.rawValue))
        let hash = SeededHash.hash(kind, word0 >> 3, word1)
        return hash & ~(7 << 32) | (word0 & 7) << 32
    }
}

/// The common table of the objects that the changesets of an arena name.
struct ObjectTable: Sendable {
    private(set) var keys: [ObjectKey] = []
    private var slots = HashSlots()
    /// Instructions on one object tend to follow each other, and changesets tend to name objects in the same order.
    private var latest = 0

    var count: Int { keys.count }

    @inline(__always)
    mutating func number(of key: ObjectKey) -> ObjectKeyID {
        if latest < keys.count, keys[latest] == key { return ObjectKeyID(UInt32(truncatingIfNeeded: latest)) }
        if latest &+ 1 < keys.count, keys[latest &+ 1] == key {
            latest &+= 1
            return ObjectKeyID(UInt32(truncatingIfNeeded: latest))
        }
        let hash = key.hash
        let found = slots.find(hash) { keys[$0] == key }
        if let entry = found.entry {
            latest = entry
        } else {
            keys.append(key)
            latest = slots.insert(hash, at: found.slot)
        }
        return ObjectKeyID(UInt32(truncatingIfNeeded: latest))
    }

    mutating func truncate(to count: Int) {
        guard count < keys.count else { return }
        keys.removeLast(keys.count - count)
        slots.truncate(to: count)
    }
}
