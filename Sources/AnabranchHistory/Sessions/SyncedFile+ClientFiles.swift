public import AnabranchCore

extension SyncedFile {
    /// Makes new client files, one for each of `users`, in one transaction. They are durable when the call returns.
    /// - Parameters:
    ///   - users: the user who asks for each; nil if the server does not know.
    ///   - time: seconds since 1970.
    /// - Throws: a failure of the store; then nothing was made.
    public func allocateIdents(for users: [String?], at time: UInt64) throws(HistoryError) -> [SaltedFileID] {
        try retrying { () throws(HistoryError) in
            try SyncedFile.updateClientFiles(of: [(self, users)], at: time)[0].get()
        }
    }

    /// Makes new client files of different synced files of one store, and records which have identified themselves, in
    /// one transaction for each shard.
    /// - Parameters:
    ///   - requests: the users who request new ones.
    ///   - time: seconds since 1970.
    /// - Returns: for each synced file its new client files, which are durable, or the error. Identifications that wait
    ///   to be recorded are dropped in any case.
    package static func updateClientFiles(
        of requests: [(file: SyncedFile, users: [String?])], at time: UInt64
    ) -> [Result<[SaltedFileID], HistoryError>] {
        let prepared = requests.map { file, users in
            Result { () throws(HistoryError) in try file.changedClientFiles(users, at: time) }
        }
        let commits = zip(requests, prepared).compactMap { request, result in
            (try? result.get()).map { (file: request.file, commit: $0) }
        }
        var failures = commit(commits)[...]
        return zip(requests, prepared).map { request, result in
            result.flatMap { commit in
                if let failure = failures.removeFirst() { return .failure(failure) }
                return .success(commit.newIdents(request.users.count))
            }
        }
    }

    /// The commit that makes new client files, one for each of `users`, and notes which have identified themselves.
    /// These identifications are forgotten in any case.
    /// - Parameter time: seconds since 1970.
    /// - Throws: a failure of the store.
    package func changedClientFiles(_ users: [String?], at time: UInt64) throws(HistoryError) -> Commit {
        let time = max(1, time), seen = identified.filter { Self.isDue($1, at: time) }.keys.sorted()
        identified = [:]
        guard !seen.isEmpty || !users.isEmpty else { return Commit(file: id, lease: lease, head: self.head) }
        let (head, returned) = try read(missesTail: false) { view throws(HistoryError) in
            (try view.head(), try seen.map { ident throws(HistoryError) in try current(ident, in: view) })
        }
        var commit = Commit(file: id, lease: lease, head: head)
        commit.clientFiles = returned.compactMap { file in
            guard var file, !file.isExpired else { return nil }
            file.seen(at: max(file.lastSeen, time))
            return file
        }
        for (number, user) in zip(head.nextIdent.rawValue..., users) {
            commit.clientFiles.append(
                ClientFile(
                    ident: ClientFileID(rawValue: number), salt: Salt.random(using: &randomness), lastSeen: time,
                    user: user, lineage: .none))
        }
        return commit
    }

    /// The age with which `ClientFile.lastSeen` is written again, in seconds: a day.
    static var seenPrecision: UInt64 { 86_400 }

    private static func isDue(_ lastSeen: UInt64, at time: UInt64) -> Bool { time >= lastSeen &+ seenPrecision }

    /// Has `updateClientFiles` record that a client is there, if that was not done lately or a node believes it away.
    func recordSeen(_ file: ClientFile) { identified[file.ident] = file.foundAway > 0 ? 0 : file.lastSeen }

    /// Forgets that a client file has identified itself if that need not be noted: a device that comes back several
    /// times a day makes no work each time.
    package func forgetIdentified(_ ident: ClientFileID, at time: UInt64) {
        if let lastSeen = identified[ident], !Self.isDue(lastSeen, at: time) { identified[ident] = nil }
    }

    /// True if client files have identified themselves that `updateClientFiles` may have to note.
    package var hasIdentified: Bool { !identified.isEmpty }

    /// Checks an IDENT (`Spec/History.md`, section 4, rows 1 to 10; `Spec/BoundedHistory.md`, section 4)
    /// and says where the session starts.
    ///
    /// Rows 11 and 12, a file that another session has bound, are the caller's: it knows the connections. Row 10 cannot
    /// fail, since this server makes files of one type only.
    ///
    /// - Parameter user: the user as whom the connection was authenticated; nil if connections are not authenticated,
    ///   and then the file's user is not compared. A file without one is made this user's, durably, if the file may be
    ///   adopted.
    /// - Throws: for the first check that fails `badServerVersion`, `badClientFileIdent`, `divergingHistories`,
    ///   `clientFileExpired`, `badClientVersion` or `userMismatch`; a failure of the store.
    public func identify(_ request: IdentRequest, user: String? = nil) throws(HistoryError) -> SessionProgress {
        guard isShared else {
            do throws(HistoryError) { return try identify(request, user, isNewHere: false) } catch {
                // The client may have come from a node that has taken the file over: then this one cannot judge it.
                if !error.isStoreFailure { _ = try store.read(id) { view throws(HistoryError) in try view.head() } }
                throw error
            }
        }
        // The client may have come from another node, and have seen what was written there: the first reading of the
        // store finds that out.
        return try retrying { () throws(HistoryError) in
            try identify(request, user, isNewHere: beginSession(of: request.file.ident))
        }
    }

    /// - Parameter isNewHere: whether the session has to be recorded in the client file.
    private func identify(
        _ request: IdentRequest, _ user: String?, isNewHere: Bool
    ) throws(HistoryError) -> SessionProgress {
        let head = head
        let isKept = tail?.clientFile(request.file.ident) != nil
        let (stored, found) = try read(missesTail: !isKept) { view throws(HistoryError) in
            (try view.head(), try check(request, head: head, view: view))
        }
        // Only this IDENT can tell where a copy is: a later choice would begin with nothing.
        if request.download.serverVersion > 0, unwrittenChoices.contains(found.ident) { try writeProgress() }
        var file = found
        if adoptsUnownedClientFiles, let user, file.user == nil {
            file.user = user
            // An integration under way would write the file without its user.
            if queue.progress(of: file.ident) != nil { dropIntegration() }
        }
        try require(user == nil || user.hasBytes(of: file.user), .userMismatch, "the file belongs to another user")
        if isNewHere { file.session += 1 }
        file.foundAway = 0
        if file != found { try commit([file], at: stored) }
        if isNewHere { ownSessions[file.ident] = file.session }
        recordSeen(file)
        let queued = queue.progress(of: file.ident)
        return SessionProgress(
            download: request.download, threshold: queued?.progress ?? file.uploadCursor,
            lockedVersion: max(queued?.lockedVersion ?? 0, file.lockedVersion))
    }

    private func check(
        _ request: IdentRequest, head: FileHead, view: any FileView
    ) throws(HistoryError) -> ClientFile {
        let ident = request.file.ident, download = request.download, latest = request.latest.version
        try require(latest <= head.version, .badServerVersion, "the client has seen a version that does not exist")
        guard ident > 0, let file = try current(ident, in: view) else {
            throw HistoryError(.badClientFileIdent, "there is no client file \(ident)")
        }
        try require(
            file.salt != 0 && file.salt == request.file.salt, .divergingHistories, "wrong salt of the client file")
        try require(
            download.serverVersion >= file.uploadCursor.serverVersion, .badServerVersion,
            "the download cursor is behind what the client had confirmed")
        try require(!file.isExpired, .clientFileExpired, "the client file has expired")
        try require(
            download.serverVersion <= head.version, .badServerVersion, "the download cursor is beyond the log")
        try require(
            download.clientVersion <= file.uploadCursor.clientVersion, .badClientVersion,
            "the download cursor names a client version that was never integrated")
        try require(
            download.serverVersion <= latest, .badServerVersion, "the download cursor is beyond the latest version")
        if file.lineage == .none {
            try require(download.clientVersion == 0, .divergingHistories, "nothing of the client was integrated yet")
            guard download.serverVersion == 0 else { return try chooseLineage(for: file, ofCopy: request, in: view) }
            try view.checkSalt(of: request)
            return try chooseLineage(for: file, in: view)
        }
        try view.check(request, of: file)
        let lineage = try view.lineage(of: file, after: download.serverVersion)
        let receipt = try lineage.lastReceipt(from: ident, upTo: download.serverVersion)
        try require(
            download.clientVersion == receipt?.clientVersion ?? file.baseClientVersion, .divergingHistories,
            "the download cursor names another client version than the log")
        return file
    }

    static func isSalt(
        _ salt: Salt, of version: ServerVersion, head: FileHead, view: any FileView
    ) throws(HistoryError) -> Bool {
        if version == 0 { return salt == 0 }
        if version == head.baseVersion { return salt == head.baseSalt }
        if version == head.version { return salt == head.versionSalt }
        // A salt cannot be guessed, nor does damage yield one. Only a refusal needs the whole entry, which is checked.
        if try view.salt(of: version) == salt { return true }
        return try view.entry(version)?.salt == salt
    }

    /// The stored row of a client file; nil if there is none.
    package func clientFile(_ ident: ClientFileID) throws(HistoryError) -> ClientFile? {
        try retrying { () throws(HistoryError) in
            try read(missesTail: false) { view throws(HistoryError) in try view.clientFile(ident) }
        }
    }

    /// The latest time before which a client file cannot have made a change in knowledge of a version, according to two
    /// entries of the log: the newest one of its own, and that version if the server has made it. Clocks of other
    /// clients are not believed. Nil if there is neither.
    package func time(knownTo ident: ClientFileID, at version: ServerVersion) throws(HistoryError) -> ChangesetTime? {
        try retrying { () throws(HistoryError) in
            try read(missesTail: false) { view throws(HistoryError) in
                var times: [ChangesetTime] = []
                for known in [try view.clientFile(ident)?.newestReceipt?.version ?? 0, version] where known > 0 {
                    guard let entry = try view.entry(known) else { continue }
                    let isServers = entry.origin.rawValue < ClientFile.reserved.count
                    if isServers || entry.origin == ident { times.append(entry.timestamp) }
                }
                return times.max()
            }
        }
    }

    /// True if nobody else has ever taken part.
    package func isUsed(onlyBy user: String) throws(HistoryError) -> Bool {
        var last = ClientFileID(rawValue: UInt64(ClientFile.reserved.count - 1))
        while true {
            let files = try retrying { [last] () throws(HistoryError) in
                try read { view throws(HistoryError) in
                    try view.clientFiles(after: last, countMax: PinScan.pageCount)
                }
            }
            guard files.allSatisfy({ $0.user.hasBytes(of: user) }) else { return false }
            guard let end = files.last, files.count == PinScan.pageCount else { return true }
            last = end.ident
        }
    }

    /// Lets a client file expire: from now on it is refused with `clientFileExpired`. Nothing happens to one that has
    /// expired already.
    /// - Returns: whether it has expired only now.
    /// - Throws: `badClientFileIdent` if there is no such file or it is a reserved row.
    @discardableResult
    public func expire(_ ident: ClientFileID) throws(HistoryError) -> Bool {
        try retrying { () throws(HistoryError) in try letExpire(ident) }
    }

    private func letExpire(_ ident: ClientFileID) throws(HistoryError) -> Bool {
        let (head, file) = try read(missesTail: false) { view throws(HistoryError) in
            (try view.head(), try current(ident, in: view))
        }
        guard var file, file.salt != 0 else {
            throw HistoryError(.badClientFileIdent, "there is no client file \(ident)")
        }
        if file.isExpired { return false }
        // An integration under way would revive the file.
        if queue.progress(of: ident) != nil { dropIntegration() }
        file.isExpired = true
        try commit([file], at: head)
        return true
    }
}

extension Commit {
    /// The newest of the client files, in the form that is sent to their clients.
    package func newIdents(_ count: Int) -> [SaltedFileID] {
        clientFiles.suffix(count).map { SaltedFileID(ident: $0.ident, salt: $0.salt) }
    }
}
