/// The objects of asymmetric classes that wait for a consumer.
extension FlexibleFile {
    /// What they can occupy, in bytes: uploads with more have to wait until some are freed.
    package static let ingestedBytesMax: UInt64 = 1 << 30

    /// Those behind a number, in order.
    /// - Parameter byteBudget: at about how many bytes the page ends.
    package func ingested(
        after number: UInt64, countMax: Int, byteBudget: Int = 4 << 20
    ) throws(HistoryError) -> [IngestedObject] {
        try store.ingested(of: file.id, after: number, countMax: countMax, byteBudget: byteBudget)
    }

    /// Frees those up to a number.
    package func freeIngested(through number: UInt64) throws(HistoryError) {
        var commit = Commit(file: file.id, lease: file.lease, head: file.head)
        commit.freedIngested = number
        ingestedBytes = nil
        try file.commit(commit)
    }

    /// - Throws: `backlogFull` if there is no room for so many more.
    func requireRoom(for objects: [IngestedObject]) throws(HistoryError) {
        guard !objects.isEmpty else { return }
        let before = if let ingestedBytes { ingestedBytes } else { try store.ingestedBytes(of: file.id) }
        ingestedBytes = before
        let after = objects.reduce(before) { $0 + $1.byteCount }
        try require(
            after <= ingestedBytesMax, .backlogFull,
            "objects of asymmetric classes occupy \(before) of \(ingestedBytesMax) bytes: nobody frees them")
        ingestedBytes = after
    }
}
