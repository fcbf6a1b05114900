package import AnabranchCore

/// Writes of the server itself.
extension FlexibleFile {
    /// As `SyncedFile.write`: clients are sent the transaction as far as they see what it is about. `body` is called
    /// again if another node has written in between.
    ///
    /// - Parameter isAccepted: whether the changeset that was recorded stays; otherwise nothing happens.
    @discardableResult
    package func write(
        at timestamp: ChangesetTime, idempotencyKey: String? = nil,
        if isAccepted: ([UInt8]) throws -> Bool = { _ in true }, _ body: (WriteTransaction) throws -> Void
    ) throws -> ServerWrite {
        while true {
            do { return try writeOnce(at: timestamp, idempotencyKey, if: isAccepted, body) } catch {
                guard (error as? HistoryError)?.code == .conflict else { throw error }
                try follow()
            }
        }
    }

    private func writeOnce(
        at timestamp: ChangesetTime, _ idempotencyKey: String?, if isAccepted: ([UInt8]) throws -> Bool,
        _ body: (WriteTransaction) throws -> Void
    ) throws -> ServerWrite {
        let before = try currentState(), version = file.head.version
        let (commit, made) = try file.prepareWrite(idempotencyKey: idempotencyKey, at: timestamp, body)
        guard var commit else { return made }
        if let entry = commit.entries.first, let after = commit.state?.after {
            guard try isAccepted(entry.changeset) else { return ServerWrite(version: version, isRepetition: false) }
            let step = try LogStep([entry], from: before, to: after)
            let image = try BeforeImage(of: step.touched.keys.sorted(), in: before, before: after, only: fields)
            commit.entries[0].section = image.section
            try self.commit(nil, in: commit, step)
        } else {
            try store(commit)
        }
        return made
    }
}
