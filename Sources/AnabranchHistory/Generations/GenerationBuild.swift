public import AnabranchCore

/// A state that stays as it is, whatever is committed to its file.
public struct FrozenState: Sendable {
    /// The objects at that moment.
    public var state: ObjectGraph
    /// The head of the file at that moment.
    public var head: FileHead

    /// Creates a frozen state, to make a generation of.
    public init(state: ObjectGraph, head: FileHead) {
        self.state = state
        self.head = head
    }
}

/// A bootstrap generation in the making. Each step makes one changeset, which is stored before the next is made; so it
/// takes no more memory for a large state than for a small one.
struct GenerationBuild {
    private let head: FileHead
    private let start: Checksum
    private var changesets: BootstrapChangesets
    private var end: LogPlace

    /// Its entries are written once, and read by few.
    private static let compressionLevel = 3

    /// - Parameters:
    ///   - start: where the chain of the file begins.
    ///   - entryBytes: the approximate size at which an entry ends, in bytes.
    init(of frozen: FrozenState, _ start: Checksum, endingAt entryBytes: Int) {
        head = frozen.head
        self.start = start.start(ofGeneration: frozen.head.version)
        changesets = BootstrapChangesets(of: frozen.state, endingAt: entryBytes)
        end = LogPlace(version: 0, cumulativeSize: 0, chain: self.start)
    }

    /// The generation, once all entries are made.
    var generation: Generation {
        Generation(
            version: head.version, entryCount: end.version.rawValue, bytes: end.cumulativeSize,
            cumulativeSize: head.cumulativeSize)
    }

    /// Makes the next entry. One without a changeset stands for a state without classes.
    /// - Returns: nil if all are made.
    mutating func next() throws(HistoryError) -> GenerationChange? {
        let made: [UInt8]?
        do { made = try changesets.next() } catch { throw HistoryError(readingStateFailed: error) }
        guard let changeset = made ?? (end.version == 0 ? [] : nil) else { return nil }
        let entry = LogEntry(
            version: end.version + 1, salt: 0, origin: 0, clientVersion: 0, timestamp: 0,
            cumulativeSize: end.cumulativeSize + UInt64(changeset.count), changeset: changeset)
        let block = try LogSegment.seal([entry], after: end.chain, of: start, level: Self.compressionLevel)
        end = LogPlace(
            version: entry.version, cumulativeSize: entry.cumulativeSize, chain: end.chain.following(entry))
        return .append(to: head.version, last: entry.version, block: block)
    }
}
