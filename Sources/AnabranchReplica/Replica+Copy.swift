import AnabranchCore

extension Replica {
    /// Forgets which client file it is, so that it is a copy for another device or user: it keeps its data and its
    /// place in the server's log, and goes on from there once the server has given it an ident of its own.
    ///
    /// - Throws: `ReplicaError` with the code `notAllowed` if local changes wait to be uploaded, since then both would
    ///   upload them; or if the store fails.
    package mutating func becomeCopy() throws {
        guard isAcknowledged else {
            throw ReplicaError(.notAllowed, "\(unacknowledged.changesets) of its transactions are not uploaded yet")
        }
        var change = Change(self)
        change.log.trim(through: record.version)
        change.commit.trimmedVersion = record.version
        change.commit.bootstrap = .go
        change.commit.record.subscriptions?.bootstrapsDropped()
        change.commit.record.file = nil
        change.commit.record.isRecovering = false
        // Its own entries are counted from the first version that it uploads under its new ident.
        change.commit.record.progress.cursor.clientVersion = 0
        change.commit.record.progress.upload = UploadCursor()
        try carryOut(change)
        openBootstrap = nil
        startUploading()
    }
}
