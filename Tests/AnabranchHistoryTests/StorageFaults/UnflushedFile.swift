import AnabranchTesting

/// A file as a disk has it: what was flushed, and what was written since, of which a loss of power leaves anything.
struct UnflushedFile {
    enum Write {
        case bytes([UInt8], at: Int)
        /// It gets this size; a file that is made gets 0.
        case size(Int)
        case removal
    }

    /// The rest that a loss of power leaves of the writes since the last flush.
    enum Survivors: CaseIterable {
        case none, all
        /// Any of their sectors, in any file.
        case some
        /// All before the last write, and the beginning of that.
        case torn
    }

    /// In bytes: a disk writes a sector as a whole or not at all.
    static let sectorBytes = 512

    /// Nil if there is no such file.
    private(set) var flushed: [UInt8]?
    private(set) var writes: [Write] = []

    init(flushed: [UInt8]?) { self.flushed = flushed }

    mutating func record(_ write: Write) { writes.append(write) }

    mutating func flush() {
        flushed = content(with: writes)
        writes = []
    }

    /// What is done for all files when one is flushed: names that went away do not come back.
    mutating func flushRemovals() {
        guard let last = writes.lastIndex(where: { if case .removal = $0 { true } else { false } }) else { return }
        flushed = content(with: Array(writes[...last]))
        writes.removeFirst(last + 1)
    }

    /// What a flush may do that has failed: programs still read what they have written, and the next flush writes
    /// nothing of it.
    mutating func loseWrites() { writes = [] }

    /// The rest of the file; nil if it is not there.
    /// - Parameter isLast: whether the newest write of all was to this file.
    func content(of survivors: Survivors, isLast: Bool, using random: inout SeededRandom) -> [UInt8]? {
        switch survivors {
        case .none: return flushed
        case .all: return content(with: writes)
        case .some:
            let share = random.pick([1, 5, 9])
            return content(with: writes.flatMap(Self.sectors).filter { _ in random.below(10) < share })
        case .torn:
            guard isLast, let last = writes.last else { return content(with: writes) }
            var rest = Array(writes.dropLast())
            if case .bytes(let bytes, let offset) = last {
                rest.append(.bytes(Array(bytes.prefix(random.below(bytes.count))), at: offset))
            }
            return content(with: rest)
        }
    }

    private static func sectors(of write: Write) -> [Write] {
        guard case .bytes(let bytes, let offset) = write else { return [write] }
        var sectors: [Write] = [], start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + sectorBytes - (offset + start) % sectorBytes)
            sectors.append(.bytes(Array(bytes[start..<end]), at: offset + start))
            start = end
        }
        return sectors
    }

    private func content(with writes: [Write]) -> [UInt8]? {
        writes.reduce(into: flushed) { content, write in
            switch write {
            case .removal: content = nil
            case .size(let size):
                let bytes = content ?? []
                content = bytes.prefix(size) + Array(repeating: 0, count: max(0, size - bytes.count))
            case .bytes(let new, let offset):
                var bytes = content ?? []
                bytes += Array(repeating: 0, count: max(0, offset + new.count - bytes.count))
                bytes.replaceSubrange(offset..<offset + new.count, with: new)
                content = bytes
            }
        }
    }
}
