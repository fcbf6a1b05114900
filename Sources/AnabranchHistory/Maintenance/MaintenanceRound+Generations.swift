import AnabranchCore

/// The bootstrap generations of a file: when one is made, and when one goes (`Spec/BoundedHistory.md`, section 2).
extension SyncedFile {
    /// Whether much was written since the newest one. A relay has no state to make one of.
    func isGenerationDue(_ policy: HistoryPolicy) throws(HistoryError) -> Bool {
        guard keepsState, head.stateVersion == head.version else { return false }
        guard let newest = try generations().last else {
            // Who begins with nothing has nothing to begin with, after a repair.
            return head.baseVersion > 0 || head.cumulativeSize > policy.generationBytes
        }
        let bytes = head.cumulativeSize - newest.cumulativeSize
        return bytes > policy.generationBytes && Double(bytes) > policy.generationRatio * Double(newest.bytes)
    }

    /// Makes a generation if the log has lost its beginning and there is none, and forgets nothing.
    /// - Throws: a failure of the store.
    package func makeMissingGeneration() throws(HistoryError) {
        guard try generations().isEmpty else { return }
        _ = try run(MaintenanceRound(HistoryPolicy(), at: 0, expires: false, connected: [], upTo: 0))
    }

    /// Removes what is left of one that was not finished, or begins.
    func beginGeneration(_ round: inout MaintenanceRound) throws(HistoryError) -> Commit? {
        if let commit = try leftoverRemoval() { return commit }
        guard let frozen = try store.frozenState(of: id), frozen.head.version == frozen.head.stateVersion,
            frozen.head.version > 0
        else {
            round.stage = .drop
            return nil
        }
        round.stage = .build(
            GenerationBuild(of: frozen, Checksum(startOf: path), endingAt: round.policy.generationEntryBytes))
        return nil
    }

    /// Stores the next entry of a generation. Behind the last one it becomes visible.
    func continueGeneration(
        _ build: GenerationBuild, _ round: inout MaintenanceRound
    ) throws(HistoryError) -> Commit? {
        var build = build, commit = try currentCommit()
        if let entry = try build.next() {
            round.stage = .build(build)
            commit.generation = entry
            return commit
        }
        let generation = build.generation
        if generation.entryCount > generation.version.rawValue {
            return try lengthened(for: generation, commit, &round)
        }
        round.stage = .generate
        round.report.generationsMade += 1
        round.report.generationBytes += generation.bytes
        commit.generation = .publish(generation)
        return commit
    }

    /// Appends entries without changesets, which no client sees: each entry of a generation needs a version. It is made
    /// anew then.
    private func lengthened(
        for generation: Generation, _ commit: Commit, _ round: inout MaintenanceRound
    ) throws(HistoryError) -> Commit? {
        round.lengthenings += 1
        let wanted = generation.entryCount + generation.entryCount / 8 + 8, version = commit.head.version
        guard round.lengthenings <= MaintenanceRound.lengtheningsMax, let state = try currentState() else {
            round.stage = .drop
            return nil
        }
        round.stage = .generate
        guard wanted > version.rawValue else { return nil }
        let timestamp = try read { view throws(HistoryError) in try view.entry(version)?.timestamp ?? 0 }
        var commit = commit
        for next in version.rawValue + 1...wanted {
            commit.entries.append(
                LogEntry(
                    version: ServerVersion(rawValue: next), salt: versionSalt, origin: 0, clientVersion: 0,
                    timestamp: timestamp, cumulativeSize: commit.head.cumulativeSize, changeset: []))
        }
        commit.state = StateUpdate(version: ServerVersion(rawValue: wanted), after: state, changes: StateChanges())
        return commit
    }

    /// Lets the oldest generation go that nobody needs, or what is left of one.
    func droppedGeneration(_ round: inout MaintenanceRound) throws(HistoryError) -> Commit? {
        if let commit = try leftoverRemoval() { return commit }
        let chosen = Set(unwrittenChoices.compactMap { unwritten[$0]?.lineage })
        let old = try generations().dropLast().map(\.version).filter { !chosen.contains(.generation($0)) }
        let unneeded = try read { view throws(HistoryError) -> ServerVersion? in
            for version in old where try view.clientFile(ofGeneration: version) == nil { return version }
            return nil
        }
        guard let unneeded else { return nil }
        round.report.generationsDropped += 1
        return try removal(of: unneeded)
    }

    private func leftoverRemoval() throws(HistoryError) -> Commit? {
        let leftover = try read { view throws(HistoryError) in try view.leftoverGeneration() }
        guard let leftover else { return nil }
        return try removal(of: leftover)
    }

    private func removal(of version: ServerVersion) throws(HistoryError) -> Commit {
        var commit = try currentCommit()
        commit.generation = .remove(version)
        return commit
    }

    private func currentCommit() throws(HistoryError) -> Commit {
        Commit(file: id, lease: lease, head: try read { view throws(HistoryError) in try view.head() })
    }
}
