/// Mixes bytes and words into hash values that a peer cannot foresee: the secrets are drawn once per process.
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

/// Slots of an open-addressing hash table whose entries live in a separate array.
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
