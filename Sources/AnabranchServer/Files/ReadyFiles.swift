import NIOCore

/// The files that are ready for a turn, in the order in which they became so. Short turns come first; but when there
/// were many, a long one comes in between, so that every merge comes to its end.
struct ReadyFiles {
    /// So many short turns come before a long one, if they do not end earlier.
    static let shortTurnsMax = 64

    // A slice of an array would keep what was taken out of it.
    private var short = CircularBuffer<FileQueue>()
    private var long = CircularBuffer<FileQueue>()
    /// The files that have a place in `long` but are there for a short turn, or were. To look for the place in order to
    /// free it would take as long as there are files.
    private var promoted: Set<ObjectIdentifier> = []
    private var shortTurns = 0

    mutating func append(_ file: FileQueue, for kind: TurnKind) {
        switch kind {
        case .short: short.append(file)
        case .long: if promoted.remove(ObjectIdentifier(file)) == nil { long.append(file) }
        }
    }

    /// A file that is there for a long turn gets a short one.
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
