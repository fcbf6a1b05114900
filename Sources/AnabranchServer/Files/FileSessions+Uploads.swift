import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Metrics
import OrderedCollections

/// The checks of an UPLOAD before it is queued.
extension FileSessions {
    /// Logs a client whose clock is wrong, once a session; nothing is refused because of it.
    func recordClock(ofRunning index: Int, _ changesets: [UploadedChangeset]) throws(HistoryError) {
        let limit = environment.options.clientClockSecondsMax, ident = running.values[index].clientFile
        let difference = try running.values[index].clock.difference(
            in: changesets, at: environment.now(), beyondSeconds: limit
        ) { [file] changeset throws(HistoryError) in
            try file.time(knownTo: ident, at: changeset.cursor.serverVersion)
        }
        guard let seconds = difference else { return }
        environment.metrics.clientClocksWrong.increment()
        let session = running.values[index]
        environment.log.write(
            wrongClock: seconds, of: session.clientFile, user: session.user.user, path: file.path)
    }

    /// Takes the app's classes and columns, which do not count as writes, out of the upload of a user who may only
    /// read.
    /// - Throws: `writeNotAllowed` if the upload has data.
    func withholdSchema(of upload: inout Upload, for key: SessionKey) throws(HistoryError) {
        let missing = try file.withholdSchema(of: &upload)
        guard !missing.isEmpty else { return }
        let text = "the user may only read, so the partition does not get " + missing.joined(separator: ", ")
        environment.log.write(unknownSchema: text, path: file.path, client: running[key]?.clientFile ?? 0)
        reply(key, .log(LogMessage(level: .warn, message: text)))
    }

    /// Checks that the log may grow. While it is full, maintenance is asked from time to time to look for entries that
    /// can go.
    /// - Throws: `noRoom` while the log holds more than it may.
    func requireRoom() throws(HistoryError) {
        let policy = environment.options.history
        guard policy.isFull(file.head) else { return }
        if environment.fullFiles.isRoundDue(for: file.path, at: environment.unixSeconds()) { file.requestTrim() }
        throw HistoryError(
            .noRoom, "the log of the file has more than \(policy.logBytesMax) bytes: nothing is added to it")
    }
}

/// The memory of merges.
extension FileSessions {
    /// The memory that merges under way occupy, in bytes.
    var mergeBytes: Int { flexible?.mergeBytes ?? file.integrationBytes }

    /// Lets merges under way begin again, to free their memory.
    /// - Returns: false if there are none.
    func dropMerges() -> Bool {
        guard mergeBytes > 0 else { return false }
        if let flexible { flexible.dropMerges() } else { file.dropMerges() }
        return true
    }
}

/// The operator's part.
extension FileSessions {
    /// Expires a client file. The session that uses it fails.
    /// - Returns: whether it had not expired before.
    @discardableResult
    func expire(_ clientFile: ClientFileID) throws(HistoryError) -> Bool {
        let isNew = if let flexible { try flexible.expire(clientFile) } else { try file.expire(clientFile) }
        if let key = session(of: clientFile) {
            fail(key, ErrorMessage(HistoryError(.clientFileExpired, "the operator has let the client file expire")))
        }
        return isNew
    }
}
