import AnabranchCore
import AnabranchHistory

/// The transactions that follow a cursor in the log of a synced file, first the present and then the future ones, as
/// `SyncServer.changes` hands them out.
public struct FileChanges: AsyncSequence, Sendable {
    /// Each transaction comes once, in the order of the log.
    public typealias Element = SyncedTransaction

    /// A page of the log ends with the transaction that takes it beyond this number of bytes.
    static let pageBytesSoftMax = 64 << 10

    /// The synced files; nil unless the server runs.
    let files: @Sendable () -> FileQueues?
    let path: VirtualPath
    let start: ChangeCursor

    /// An iterator that begins after the cursor. Each iterator is independent of the others.
    public func makeAsyncIterator() -> Iterator { Iterator(of: self) }

    /// One reader of the sequence. It holds one page of the log.
    public struct Iterator: AsyncIteratorProtocol {
        private let changes: FileChanges
        /// The place after the page.
        private var end: ChangeCursor
        private var entries: ArraySlice<LogEntry> = []
        private var users: [ClientFileID: String] = [:]
        private var news: LogFollower?
        private var isOver = false

        init(of changes: FileChanges) {
            self.changes = changes
            end = changes.start
        }

        /// Waits for the next transaction.
        /// - Returns: nil when the server or the task ends.
        /// - Throws: `SyncServerError`, or `HistoryError` if the store fails. A new sequence can then go on after the
        ///   last transaction.
        public mutating func next() async throws -> SyncedTransaction? {
            if isOver { return nil }
            do {
                while !Task.isCancelled {
                    while let entry = entries.popFirst() {
                        let transaction = try SyncedTransaction(entry, user: users[entry.origin])
                        if transaction.changesSchema || !transaction.objects.isEmpty { return transaction }
                    }
                    guard try await fetch() else { break }
                }
            } catch {
                isOver = true
                throw error
            }
            isOver = true
            return nil
        }

        /// Fetches the next page, or waits until there may be one.
        /// - Returns: whether the sequence goes on.
        private mutating func fetch() async throws -> Bool {
            guard let files = changes.files() else {
                if news != nil { return false }
                throw SyncServerError.notRunning
            }
            let path = files.environment.names.file(at: changes.path)
            let follower = news ?? files.environment.followers.follow(path)
            news = follower
            let page: LogPage
            do {
                page = try await files.run(on: path) { [end] file in
                    try file.existingFile()?.page(after: end.place, byteBudget: FileChanges.pageBytesSoftMax)
                        ?? LogPage(ofNoFile: end.place)
                }
            } catch let error as HistoryError {
                if files.environment.isEnding { return false }
                switch error.code {
                case .badServerVersion: throw SyncServerError.changesForgotten(in: changes.path)
                case .divergingHistories: throw SyncServerError.unknownCursor(in: changes.path)
                default: throw error
                }
            }
            (entries, users, end) = (page.entries[...], page.users, ChangeCursor(page.end))
            return entries.isEmpty ? await follower.wait() : true
        }
    }
}
