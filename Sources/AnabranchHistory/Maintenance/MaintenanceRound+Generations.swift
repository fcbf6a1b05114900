import AnabranchCore

/// The part of a log that could go if there were a generation of its end, as far as client files were looked at.
struct GenerationBenefit {
    /// The version up to which entries can go without the generation.
    let start: ServerVersion
    /// The version up to which they can go with it.
    var floor: ServerVersion
    var pins: PinScan
    /// A client file that is to expire keeps nothing.
    let expiry: Expiry
}

/// The bootstrap generations of a file: when one is made, and when one goes (`Spec/BoundedHistory.md`, section 2).
extension SyncedFile {
    /// True if much was written since the newest one. A relay has no state to make one of.
    func isGenerationDue(_ policy: HistoryPolicy) throws(HistoryError) -> Bool {
        guard keepsState, makesGenerations, head.stateVersion == head.version else { return false }
        guard let newest = try generations().last else {
            // After a repair, a client that begins with nothing has nothing to begin with.
            return head.baseVersion > 0 || head.cumulativeSize > policy.generationBytes
        }
        let bytes = head.cumulativeSize - newest.cumulativeSize
        return bytes > policy.generationBytes && Double(bytes) > policy.generationRatio * Double(newest.bytes)
    }

    /// Weighs a generation for a log of more than half of its largest size, which gets one if that lets enough of it
    /// go: otherwise it would become full, and stay so, though it is not needed.
    /// - Returns: nil if a generation cannot let enough go.
    func benefitOfGeneration(_ round: MaintenanceRound) throws(HistoryError) -> GenerationBenefit? {
        guard keepsState, makesGenerations, head.stateVersion == head.version, round.limit == nil,
            round.policy.isLong(head)
        else { return nil }
        let benefit = GenerationBenefit(
            start: max(head.baseVersion, try generations().last?.version ?? 0), floor: head.version - 1,
            pins: PinScan(upTo: head.version), expiry: try expiry(round, head.version))
        return try bytes(of: benefit) >= round.policy.worthwhileBytes ? benefit : nil
    }

    /// Looks at a page of client files. After the last one the generation is made, or not.
    func weigh(_ benefit: GenerationBenefit, _ round: inout MaintenanceRound) throws(HistoryError) -> Commit? {
        let weighed = try read { view throws(HistoryError) in
            var benefit = benefit
            try benefit.pins.advance(over: view) { file, pin throws(HistoryError) in
                // It expires once the generation is there.
                if isAway(file.ident), benefit.expiry.reason(for: file, pin: pin) != nil { return }
                benefit.floor = min(benefit.floor, pin)
            }
            return benefit
        }
        if try bytes(of: weighed) < round.policy.worthwhileBytes {
            round.stage = try stageBehindGeneration(round)
        } else if weighed.pins.isDone {
            return try beginGeneration(&round)
        } else {
            round.stage = .weigh(weighed)
        }
        return nil
    }

    private func bytes(of benefit: GenerationBenefit) throws(HistoryError) -> UInt64 {
        guard benefit.floor > benefit.start else { return 0 }
        return try read { view throws(HistoryError) in
            try view.cumulativeSize(at: benefit.floor) - view.cumulativeSize(at: benefit.start)
        }
    }

    /// Makes a generation if the log has lost its beginning and there is none; trims nothing.
    /// - Throws: a failure of the store.
    package func makeMissingGeneration() throws(HistoryError) {
        guard try generations().isEmpty else { return }
        _ = try run(MaintenanceRound(HistoryPolicy(), at: 0, expires: false, connected: [], upTo: 0))
    }

    /// Removes the remains of an unfinished generation, or begins a new one.
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

    /// Stores the next entry of a generation. After the last one it becomes visible.
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

    /// Appends entries without changesets, which no client sees: each entry of a generation needs a version. The
    /// generation is then made again.
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

    /// Drops the oldest generation that is not needed, or the remains of one.
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
