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

    /// The number of a key; nil if it is not there.
    func find(_ key: ObjectKey) -> ObjectKeyID? {
        slots.find(key.hash) { keys[$0] == key }.entry.map { ObjectKeyID(UInt32(truncatingIfNeeded: $0)) }
    }

    /// Changes the keys. No object can be looked up afterwards.
    mutating func replaceKeys(_ change: (inout ObjectKey) -> Void) {
        for index in keys.indices { change(&keys[index]) }
    }

    /// Assigns the GlobalKeys without an owner, which a client made before it had an ident, to its client file. No
    /// object can be looked up afterwards.
    /// - Returns: whether there was one.
    @discardableResult
    mutating func adopt(_ ident: ClientFileID) -> Bool {
        var isChanged = false
        for index in keys.indices where keys[index].type == .globalKey && keys[index].word0 == 0 {
            keys[index].word0 = ident.rawValue
            isChanged = true
        }
        return isChanged
    }

    mutating func truncate(to count: Int) {
        guard count < keys.count else { return }
        keys.removeLast(keys.count - count)
        slots.truncate(to: count)
    }
}
