package import AnabranchHistory

/// Joins the synced files that older versions have made of one partition, one for each spelling of its value
/// (`Spec/Protocol.md`, section 4.2).
package struct StoreJoin {
    /// The result for one file.
    package struct Outcome {
        /// The file that is to go.
        package let path: VirtualPath
        /// The file of its partition that stays.
        package let other: VirtualPath
        /// The number of client files that it had: their clients begin again.
        package let clientFileCount: UInt64
        /// A report of what was joined, or the reason why the file stays after all.
        package let result: Result<FileJoin.Report, any Error>
    }

    private let store: SQLiteStore
    /// The partitions that have several files: for each of them the file that stays, followed by the others.
    package let partitions: [[VirtualPath]]

    /// Opens the store in a directory.
    /// - Throws: `storeUnusable` if there is no store, it has another format, or a process uses it.
    package init(directory path: String) throws(HistoryError) {
        store = try SQLiteStore(existingIn: path)
        partitions = try PartitionNames(of: store).duplicates
    }

    /// Joins the files of a partition.
    /// - Parameters:
    ///   - files: one of `partitions`.
    ///   - time: seconds since 1970.
    ///   - report: called with each file that is to go.
    /// - Throws: `storeFailed`.
    package func run(_ files: [VirtualPath], at time: UInt64, _ report: (Outcome) -> Void) throws(HistoryError) {
        guard let other = files.first else { return }
        for path in files.dropFirst() {
            let clientFileCount = try store.file(path)?.head.clientFileCount ?? 0
            let result = Result { try FileJoin(of: path, into: other, in: store).run(at: time) }
            report(Outcome(path: path, other: other, clientFileCount: clientFileCount, result: result))
        }
    }

    /// Ends all access and lets others use the directory.
    /// - Throws: `storeFailed`.
    package func close() throws(HistoryError) { try store.close() }
}
