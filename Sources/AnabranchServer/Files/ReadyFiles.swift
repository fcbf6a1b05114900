import NIOCore

/// The files that are ready for a turn, in the order in which they became so. Short turns come first; but after many of
/// them a long one is next, so that every merge finishes.
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

    /// The number of those that wait for a short turn.
    var shortCount: Int { short.count }

    mutating func append(_ file: FileQueue, for kind: TurnKind) {
        switch kind {
        case .short: short.append(file)
        case .long: if promoted.remove(ObjectIdentifier(file)) == nil { long.append(file) }
        }
    }

    /// Gives a short turn to a file that waits for a long one.
    mutating func promote(_ file: FileQueue) {
        promoted.insert(ObjectIdentifier(file))
        short.append(file)
    }

    mutating func popFirst() -> FileQueue? {
        let isLongTurn = shortTurns >= Self.shortTurnsMax && long.count > promoted.count
        if !isLongTurn, let file = short.popFirst() {
            shortTurns += 1
            return file
        }
        shortTurns = 0
        while let file = long.popFirst() {
            if promoted.remove(ObjectIdentifier(file)) == nil { return file }
        }
        return nil
    }
}
