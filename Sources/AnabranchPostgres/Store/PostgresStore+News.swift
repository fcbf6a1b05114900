#if canImport(CLibPQ)
import AnabranchCore
package import AnabranchHistory
import Synchronization

extension PostgresStore: NewsStore {
    /// Takes one round trip, unless entries are in segments.
    package func readNews(of file: SyncedFileID, _ request: NewsRequest) throws(HistoryError) -> FileNews {
        guard let opened = try opened(file.number), opened.record != nil else {
            return try readNewsInSteps(of: file, request)
        }
        return try StoreTransaction.read(from: readers) { transaction throws(HistoryError) in
            let reading = try FileReading(file, opened, in: transaction)
            defer { openFiles.withLock { $0.didRead(reading.record) } }
            if request.stateWish != .never {
                StateRows(of: file.number, opened.lease, at: nil, in: self).fetchAhead([.schema])
            }
            let stored = PostgresFile(reading: reading, segments: segments), view = stored.view
            let (salt, newest) = try stored.newest(
                after: request.head.version, countMax: request.countMax, byteBudget: request.bytesMax)
            let now = try view.head()
            let continues = try request.isContinued(at: now) { () throws(HistoryError) in
                if let salt { return salt }
                return try view.salt(of: request.head.version)
            }
            var entries: [LogEntry] = []
            if continues == true, let count = request.entryCount(at: now) {
                entries = newest.count == count ? newest : try request.entries(at: now, in: view)
            }
            var state: ObjectGraph?
            if continues != false, request.wantsState(at: now) {
                let rows = StateRows(of: file.number, opened.lease, at: StatePlace(now), in: self)
                openFiles.withLock { $0.add(rows, of: file.number) }
                state = try self.state(over: rows)
            }
            return FileNews(head: now, continues: continues, entries: entries, state: state)
        }
    }
}
#endif
