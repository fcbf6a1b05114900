/// Mixes bytes and words into hash values that a peer cannot foresee: the secrets are drawn once a process.
///
/// Only the tables of a pool use it; nothing that is stored depends on it. Whatever a peer chooses is mixed with a secret
/// before it is multiplied: with a known factor on the other side it could make the product 0 and all values equal.
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
    static func hash(_ first: UInt64, _ second: UInt64, _ third: UInt64) -> UInt64 {
        let secrets = secrets
        return fold(fold(first ^ secrets.0, second ^ secrets.1), third ^ secrets.2)
    }
}

/// Slots of an open-addressing hash table whose entries live in an array beside it.
struct HashSlots: Sendable {
    /// An entry's number plus one; 0 is free.
    private var slots: [UInt32] = Array(repeating: 0, count: 16)
    private var hashes: [UInt64] = []

    var count: Int { hashes.count }

    /// The entry that `isEqual` accepts among those of the hash, or the free slot where it belongs.
    @inline(__always)
    func find(_ hash: UInt64, isEqual: (Int) -> Bool) -> (entry: Int?, slot: Int) {
        let mask = slots.count &- 1
        var slot = Int(truncatingIfNeeded: hash) & mask
        while slots[slot] != 0 {
            let entry = Int(slots[slot]) &- 1
            if hashes[entry] == hash, isEqual(entry) { return (entry, slot) }
            slot = (slot &+ 1) & mask
        }
        return (nil, slot)
    }

    /// Gives the next number to an entry that `find` has not found.
    @inline(__always)
    mutating func insert(_ hash: UInt64, at slot: Int) -> Int {
        hashes.append(hash)
        slots[slot] = UInt32(truncatingIfNeeded: hashes.count)
        if hashes.count &* 2 > slots.count { rebuild(slotCount: slots.count * 4) }
        return hashes.count &- 1
    }

    /// Forgets the entries from `count` on.
    mutating func truncate(to count: Int) {
        guard count < hashes.count else { return }
        hashes.removeLast(hashes.count - count)
        rebuild(slotCount: slots.count)
    }

    private mutating func rebuild(slotCount: Int) {
        slots = Array(repeating: 0, count: slotCount)
        for (entry, hash) in hashes.enumerated() {
            var slot = Int(truncatingIfNeeded: hash) & (slotCount - 1)
            while slots[slot] != 0 { slot = (slot + 1) & (slotCount - 1) }
            slots[slot] = UInt32(entry + 1)
        }
    }
}

/// The common table of the names of all changesets of a pool: classes, fields, path keys and string primary keys.
struct InternedStrings: Sendable {
    /// Where a name's bytes stand in the pool's bytes.
    struct Place: Sendable {
        var offset: UInt32
        var count: UInt32
    }

    private(set) var places: [Place] = []
    /// The decoding in which the name was defined last: finds duplicates within one changeset (rule R5).
    private var definedIn: [UInt32] = []
    /// The decoding at hand. Failed ones count, since what they leave in `definedIn` must mean nothing to the next one.
    private var decoding: UInt32 = 0
    private var slots = HashSlots()

    var count: Int { places.count }

    mutating func beginChangeset() { decoding &+= 1 }

    /// The number of a name; `isNew` is false if the changeset at hand has defined it before.
    @inline(__always)
    mutating func define(_ range: Range<Int>, in bytes: [UInt8]) -> (name: NameID, isNew: Bool) {
        let (hash, found) = bytes.withUnsafeBytes { pool in
            let name = UnsafeRawBufferPointer(rebasing: pool[range])
            let hash = SeededHash.hash(name)
            let found = slots.find(hash) { entry in
                let start = Int(places[entry].offset)
                guard Int(places[entry].count) == name.count else { return false }
                return name.elementsEqual(UnsafeRawBufferPointer(rebasing: pool[start..<start + name.count]))
            }
            return (hash, found)
        }
        guard let entry = found.entry else {
            places.append(Place(offset: UInt32(range.lowerBound), count: UInt32(range.count)))
            definedIn.append(decoding)
            return (NameID(UInt32(truncatingIfNeeded: slots.insert(hash, at: found.slot))), true)
        }
        let isNew = definedIn[entry] != decoding
        definedIn[entry] = decoding
        return (NameID(UInt32(truncatingIfNeeded: entry)), isNew)
    }

    mutating func truncate(to count: Int) {
        guard count < places.count else { return }
        places.removeLast(places.count - count)
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
    var hash: UInt64 {
        SeededHash.hash(UInt64(className.rawValue) << 8 | UInt64(UInt8(bitPattern: type.rawValue)), word0, word1)
    }
}

/// The common table of the objects that the changesets of a pool name.
struct ObjectTable: Sendable {
    private(set) var keys: [ObjectKey] = []
    private var slots = HashSlots()
    /// Instructions on one object tend to follow each other.
    private var latest = 0

    var count: Int { keys.count }

    @inline(__always)
    mutating func number(of key: ObjectKey) -> ObjectNumber {
        if latest < keys.count, keys[latest] == key { return ObjectNumber(UInt32(truncatingIfNeeded: latest)) }
        let hash = key.hash
        let found = slots.find(hash) { keys[$0] == key }
        if let entry = found.entry {
            latest = entry
        } else {
            keys.append(key)
            latest = slots.insert(hash, at: found.slot)
        }
        return ObjectNumber(UInt32(truncatingIfNeeded: latest))
    }

    mutating func truncate(to count: Int) {
        guard count < keys.count else { return }
        keys.removeLast(keys.count - count)
        slots.truncate(to: count)
    }
}
