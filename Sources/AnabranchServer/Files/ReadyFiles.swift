import NIOCore

/// The files that are ready for a turn, in the order in which they became so. Short turns come first; but after many of
/// them a long one is next, so that every merge finishes. Not all workers take long turns at once: whoever is ready for
/// a short one does not wait for their ends.
struct ReadyFiles {
    /// The most short turns before a long one.
    static let shortTurnsMax = 64

    // A slice of an array would keep the removed elements.
    private var short = CircularBuffer<FileQueue>()
    private var long = CircularBuffer<FileQueue>()
    /// The files that still have a place in `long`, although they wait for a short turn, or have had it. Finding the
    /// place to remove it would take time in proportion to the number of files.
    private var promoted: Set<ObjectIdentifier> = []
    private var shortTurns = 0
    /// The most long turns at once.
    private let longTurnsMax: Int
    /// The files that are having a long turn.
    private var longTurns: Set<ObjectIdentifier> = []
    /// The number of workers that were woken for long turns that had to wait.
    private var missedCount = 0

    init(longTurnsMax: Int = .max) { self.longTurnsMax = longTurnsMax }

    /// The number of those that wait for a short turn.
    var shortCount: Int { short.count }

    mutating func append(_ file: FileQueue, for kind: TurnKind) {
        switch kind {
        case .short: short.append(file)
        case .long: if promoted.remove(ObjectIdentifier(file)) == nil { long.append(file) }
        }
    }

    /// Gives a short turn to a file that waits for a long one.
    /// - Returns: whether a worker has to be woken again.
    mutating func promote(_ file: FileQueue) -> Bool {
        promoted.insert(ObjectIdentifier(file))
        short.append(file)
        return takeMissed()
    }

    /// To be called when the turn of a file has ended.
    /// - Returns: whether a worker has to be woken again.
    mutating func didEndTurn(of file: FileQueue) -> Bool {
        longTurns.remove(ObjectIdentifier(file)) != nil && takeMissed()
    }

    private mutating func takeMissed() -> Bool {
        guard missedCount > 0 else { return false }
        missedCount -= 1
        return true
    }

    mutating func popFirst() -> FileQueue? {
        let canBeLong = longTurns.count < longTurnsMax
        let isLongTurn = canBeLong && shortTurns >= Self.shortTurnsMax && long.count > promoted.count
        if !isLongTurn, let file = short.popFirst() {
            shortTurns += 1
            return file
        }
        guard canBeLong else {
            if long.count > promoted.count { missedCount += 1 }
            return nil
        }
        shortTurns = 0
        while let file = long.popFirst() {
            guard promoted.remove(ObjectIdentifier(file)) == nil else { continue }
            longTurns.insert(ObjectIdentifier(file))
            return file
        }
        return nil
    }
}
