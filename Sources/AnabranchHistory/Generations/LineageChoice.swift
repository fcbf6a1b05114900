package import AnabranchCore

extension FileView {
    /// Refuses a change that would leave a client file without the entries that it needs, or publish an incomplete
    /// generation. Call this within the commit, once its client files are stored.
    /// - Parameter segmentCount: the number of stored segments of a generation, each with one entry.
    /// - Throws: `storeFailed` with what is wrong.
    package func check(
        _ change: GenerationChange, segmentCount: (ServerVersion) throws(HistoryError) -> UInt64
    ) throws(HistoryError) {
        let generations = try generations(), head = try head()
        switch change {
        case .append(let version, _, _):
            if generations.contains(where: { $0.version == version }) {
                throw HistoryError(.storeFailed, "the generation of version \(version) is complete")
            }
        case .publish(let generation):
            let version = generation.version
            guard version >= head.baseVersion, version <= head.version, generation.entryCount <= version.rawValue,
                version > generations.last?.version ?? 0, generation.entryCount > 0,
                try segmentCount(version) == generation.entryCount
            else { throw HistoryError(.storeFailed, "there is no whole generation of version \(version)") }
        case .remove(let version):
            if let ident = try clientFile(ofGeneration: version) {
                throw HistoryError(.storeFailed, "client file \(ident) needs the generation of version \(version)")
            }
            if head.baseVersion > 0, generations.last?.version == version {
                throw HistoryError(.storeFailed, "the newest generation stays when the log has no beginning")
            }
        }
    }
}

/// The choice of a client file's lineage, and the positions that a client may name in it (`Spec/BoundedHistory.md`,
/// sections 3 and 4).
extension FileView {
    /// The generation of a version; nil if there is none.
    package func generation(_ version: ServerVersion) throws(HistoryError) -> Generation? {
        try generations().first { $0.version == version }
    }

    /// The lineage for a client file that was sent nothing yet: the newest generation, if the log is no longer there
    /// from its beginning, or is more than twice as long as the generation and the entries after it.
    func chosenLineage() throws(HistoryError) -> Lineage {
        guard let newest = try generations().last else { return .log }
        let head = try head(), bytes = newest.bytes + (head.cumulativeSize - newest.cumulativeSize)
        return head.baseVersion > 0 || bytes < head.cumulativeSize / 2 ? .generation(newest.version) : .log
    }

    /// The generation whose entries a client file at `version` needs; nil if it needs the log alone.
    /// - Throws: `clientFileExpired` if the generation is gone, or the log begins after the version.
    func generation(of file: ClientFile, after version: ServerVersion) throws(HistoryError) -> Generation? {
        guard case .generation(let number) = file.lineage, version < number else {
            if case .view = file.lineage, version == 0 { return nil }
            let base = try head().baseVersion
            try require(
                version >= base, .clientFileExpired, "the log begins at version \(base), after what the client has")
            return nil
        }
        guard let generation = try generation(number) else {
            throw HistoryError(.clientFileExpired, "the generation of version \(number) is gone")
        }
        return generation
    }

    /// The file with the log that a client file at `version` is sent, and that its changes on that version are merged
    /// with.
    /// - Throws: as `generation(of:after:)`.
    func lineage(of file: ClientFile, after version: ServerVersion) throws(HistoryError) -> any FileView {
        guard let generation = try generation(of: file, after: version) else { return self }
        return LineageView(generation, in: self)
    }

    /// Checks the position that a client names in IDENT (`Spec/BoundedHistory.md`, section 4).
    /// - Throws: `badServerVersion`, `clientFileExpired` or `divergingHistories`.
    func check(_ request: IdentRequest, of file: ClientFile) throws(HistoryError) {
        let download = request.download
        guard let generation = try generation(of: file, after: download.serverVersion) else {
            return try checkSalt(of: request)
        }
        try require(
            generation.canEnd(at: download.serverVersion), .badServerVersion,
            "the download cursor is not a place in the client's generation")
        try require(
            download.clientVersion == 0, .divergingHistories, "the generation holds nothing that the client has made")
        if try !names(generation, request.latest) { try checkSalt(of: request) }
    }

    /// The lineage of a client file that is new while its client is at a version already, with a copy of another
    /// client's file. The salt says in which sequence that version is.
    /// - Throws: `divergingHistories` if nothing that is still there has the salt; `clientFileExpired` if the log
    ///   begins after the version.
    func lineage(ofCopy request: IdentRequest) throws(HistoryError) -> Lineage {
        let version = request.download.serverVersion, base = try head().baseVersion
        for generation in try generations() where generation.version >= base && version < generation.version {
            if generation.has(version), try names(generation, request.latest) {
                return .generation(generation.version)
            }
        }
        try checkSalt(of: request)
        try require(version >= base, .clientFileExpired, "the log begins at version \(base), after what the copy has")
        return .copy(version)
    }

    func checkSalt(of request: IdentRequest) throws(HistoryError) {
        try require(
            try isSalt(request.latest.salt, of: request.latest.version), .divergingHistories,
            "wrong salt of the latest version")
    }

    private func isSalt(_ salt: Salt, of version: ServerVersion) throws(HistoryError) -> Bool {
        try SyncedFile.isSalt(salt, of: version, head: try head(), view: self)
    }

    /// True if a DOWNLOAD that ended within the generation has named the version with its salt.
    private func names(_ generation: Generation, _ latest: SaltedVersion) throws(HistoryError) -> Bool {
        guard latest.version >= generation.version else { return false }
        return try isSalt(latest.salt.within(generation.version), of: latest.version)
    }
}

extension Salt {
    /// The salt under which a DOWNLOAD that ends within a generation names the newest version; applied to that salt,
    /// the salt of the version again. A copy of the client's file brings it along: equal cursors are different places
    /// in the log and in each generation, and nothing else in IDENT tells them apart.
    package func within(_ generation: ServerVersion) -> Salt {
        // An odd factor: different generations differ in what they change.
        let mask = (generation.rawValue &* 0x9E37_79B9_7F4A_7C15) & UInt64(Int64.max), changed = rawValue ^ mask
        return changed == 0 ? self : Salt(rawValue: changed)
    }
}

extension SyncedFile {
    /// Chooses the lineage of a client file; the choice is written with the next commit.
    /// - Returns: the file with its lineage. In flexible sync the first bootstrap decides.
    func chooseLineage(for file: ClientFile, in view: any FileView) throws(HistoryError) -> ClientFile {
        guard file.lineage == .none, head.version > 0, makesGenerations else { return file }
        return choose(try view.chosenLineage(), for: file)
    }

    /// Records the choice, which becomes durable with the next commit.
    func choose(_ lineage: Lineage, for file: ClientFile) -> ClientFile {
        var file = file
        file.lineage = lineage
        unwritten[file.ident] = file
        unwrittenChoices.insert(file.ident)
        writeProgressWithNextCommit()
        // It may have chosen for itself.
        if queue.progress(of: file.ident) != nil { dropIntegration() }
        return file
    }

    /// As `chooseLineage(for:in:)`, for a client that begins with a copy of another client's file.
    /// - Throws: as `FileView.lineage(ofCopy:)`.
    func chooseLineage(
        for file: ClientFile, ofCopy request: IdentRequest, in view: any FileView
    ) throws(HistoryError) -> ClientFile {
        let lineage = try view.lineage(ofCopy: request)
        return makesGenerations ? choose(lineage, for: file) : file
    }
}
