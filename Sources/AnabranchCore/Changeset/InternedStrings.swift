/// The common table of the names of all changesets of an arena: classes, fields, path keys and string primary keys.
struct InternedStrings: Sendable {
    /// The place of a name's bytes in the arena's bytes.
    struct Span: Sendable {
        var offset: UInt32
        var count: UInt32
    }

    private(set) var spans: [Span] = []
    /// The decoding in which the name was defined last: finds duplicates within one changeset (rule X5).
    private var definedIn: [UInt32] = []
    /// The current decoding. Failed ones count, since what they leave in `definedIn` must mean nothing to the next one.
    private var decoding: UInt32 = 0
    private var slots = HashSlots()

    var count: Int { spans.count }

    mutating func beginChangeset() { decoding &+= 1 }

    /// The number of a name; `isNew` is false if the current changeset has defined it before.
    ///
    /// - Parameter guess: a name that it is likely to be.
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

    /// The number of a name; nil if it is not there.
    func find(_ name: [UInt8], in bytes: [UInt8]) -> NameID? {
        slots.find(name.withUnsafeBytes { SeededHash.hash($0) }) { entry in
            let span = spans[entry]
            return bytes[Int(span.offset)..<Int(span.offset) + Int(span.count)].elementsEqual(name)
        }.entry.map { NameID(UInt32(truncatingIfNeeded: $0)) }
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
