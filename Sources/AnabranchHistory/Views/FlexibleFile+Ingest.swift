import AnabranchCore

/// The objects of asymmetric classes that wait for a consumer.
extension FlexibleFile {
    /// The space that they can occupy, in bytes: uploads with more have to wait until some are freed.
    package static let ingestedBytesMax: UInt64 = 1 << 30

    /// The objects after a number, in order.
    /// - Parameter byteBudget: the approximate size at which the page ends, in bytes.
    package func ingested(
        after number: UInt64, countMax: Int, byteBudget: Int = 4 << 20
    ) throws(HistoryError) -> [IngestedObject] {
        try store.ingested(of: file.id, after: number, countMax: countMax, byteBudget: byteBudget)
    }

    /// Frees the objects up to a number.
    package func freeIngested(through number: UInt64) throws(HistoryError) {
        ingestedBytes = nil
        try retrying { () throws(HistoryError) in
            var commit = Commit(file: file.id, lease: file.lease, head: file.head)
            commit.freedIngested = number
            try store(commit)
        }
    }

    /// The divisor that gives the share of one user: one part in this many of what the others leave free. However many
    /// users fill their shares, there is room for one that has little.
    static let ingestedPartOfUser: UInt64 = 8

    /// - Throws: `backlogFull` if there is no room for the objects, among all or among those of their users.
    func requireRoom(for objects: [IngestedObject]) throws(HistoryError) {
        guard !objects.isEmpty else { return }
        let known = file.isShared ? nil : ingestedBytes
        let before = if let known { known } else { try store.ingestedBytes(of: file.id) }
        ingestedBytes = before
        let after = before.merging(objects.byteCounts, uniquingKeysWith: +), all = after.values.reduce(0, +)
        try require(
            all <= ingestedBytesMax, .backlogFull,
            "objects of asymmetric classes occupy \(before.values.reduce(0, +)) of \(ingestedBytesMax) bytes: nobody "
                + "frees them")
        for user in Set(objects.compactMap { $0.user.map { ExactString($0) } }) {
            let own = after[user] ?? 0, most = (ingestedBytesMax - (all - own)) / Self.ingestedPartOfUser
            try require(
                own <= most, .backlogFull,
                "objects of asymmetric classes of one user occupy \(before[user] ?? 0) of \(most) bytes: nobody frees "
                    + "them")
        }
        ingestedBytes = after
    }
}
