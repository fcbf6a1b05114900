public import AnabranchCore
public import AnabranchHistory

extension FileView {
    /// Explains what the merge made of a version of the log: merges it again with what its client had not seen, pair by
    /// pair, and compares the result with the log (`Spec/Explain.md`, section 2).
    ///
    /// It takes time in proportion to what the version met, at most some seconds.
    ///
    /// - Throws: `badServerVersion` if the log has no such version, or no longer has what its client had not seen: the
    ///   reason says what to ask for instead. `tooLarge` if the version met too much. `storeDamaged`, `storeFailed`.
    public func explanation(of version: ServerVersion) throws(HistoryError) -> Explanation {
        try explanation(of: version, anonymizedBy: nil)
    }

    /// The explanation with other names, keys and values. What happened is found out with the true ones.
    package func explanation(
        of version: ServerVersion, anonymizedBy anonymizer: Anonymizer?
    ) throws(HistoryError) -> Explanation {
        let entry = try existingEntry(version)
        guard entry.origin != 0 else { return try unmerged(entry, anonymizer) }
        guard let base = entry.base else {
            throw HistoryError(.badServerVersion, "version \(version) does not say what it was made on: it is too old")
        }
        var failure: HistoryError?
        for lineage in try lineages(of: entry, on: base) {
            do throws(HistoryError) {
                var replay = try VersionReplay(of: entry, on: base, in: self)
                try replay.run(seeing: lineage)
                let found = try explanation(from: &replay, of: entry, on: base, seeing: lineage, anonymizer)
                if let found { return found }
            } catch  where error.code == .badChangeset {
                continue
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return try comparison(of: entry, on: base, anonymizer)
    }

    /// An entry of the log.
    /// - Throws: `badServerVersion` with the versions that there are.
    func existingEntry(_ version: ServerVersion) throws(HistoryError) -> LogEntry {
        if let entry = try entry(version) { return entry }
        let head = try head()
        if version <= head.baseVersion, try archivedEntries(upTo: version).last?.version == version {
            throw HistoryError(
                .badServerVersion,
                """
                version \(version) is in the archive, where it can be printed but not explained: the log has versions \
                \(head.baseVersion + 1) to \(head.version)
                """)
        }
        guard head.version > head.baseVersion else {
            throw HistoryError(.badServerVersion, "there is no version \(version): the log is empty")
        }
        throw HistoryError(
            .badServerVersion,
            "there is no version \(version) in the log: it has versions \(head.baseVersion + 1) to \(head.version)")
    }

    /// The ways in which the client can have seen the file: the log, or one of the bootstrap generations and the log
    /// after it. Which one it was is not kept; merging again tells.
    private func lineages(of entry: LogEntry, on base: ServerVersion) throws(HistoryError) -> [any FileView] {
        let generations = try generations().filter {
            base < $0.version && $0.version < entry.version && $0.canEnd(at: base)
        }
        let begin = try head().baseVersion, replay = try VersionReplay(of: entry, on: base, in: self)
        let log: [any FileView] = replay.oldestBase >= begin ? [self] : []
        guard !log.isEmpty || !generations.isEmpty else {
            throw HistoryError(
                .badServerVersion,
                """
                version \(entry.version) met changes from version \(replay.oldestBase) on, and the log begins after \
                version \(begin): what its client had not seen is no longer all there. Versions that were made on \
                version \(begin) or later can be explained
                """)
        }
        return log + generations.map { LineageView($0, in: self) }
    }

    /// A version that the server made itself: nothing was merged.
    private func unmerged(
        _ entry: LogEntry, _ anonymizer: Anonymizer?
    ) throws(HistoryError) -> Explanation {
        var arena = ChangesetArena()
        let index = try entry.decode(into: &arena), writer = FormWriter(of: arena, anonymizedBy: anonymizer)
        let instructions = arena.instructions(of: index).map { instruction in
            let form = writer.form(of: instruction)
            return Explanation.Instruction(uploaded: form, logged: form, isRefused: false)
        }
        return Explanation(
            author: writer.author(try Author(of: entry, in: self)), base: nil, unseenCount: 0, isUploadKept: false,
            certainty: .exact, instructions: instructions, effects: [], decisions: [])
    }

    /// - Returns: Nil if merging again has given something else than the log has.
    private func explanation(
        from replay: inout VersionReplay, of entry: LogEntry, on base: ServerVersion, seeing lineage: any FileView,
        _ anonymizer: Anonymizer?
    ) throws(HistoryError) -> Explanation? {
        let isExact = replay.encoded == entry.changeset
        let writer = FormWriter(of: replay.merge.arena, anonymizedBy: anonymizer)
        guard
            let instructions = try replay.instructions(
                logging: try texts(of: entry), isExact: isExact, writer, anonymizer)
        else { return nil }
        return Explanation(
            author: writer.author(try Author(of: entry, in: self)), base: base,
            unseenCount: try lineage.unseenCount(of: entry, on: base), isUploadKept: try received(entry.version) != nil,
            certainty: .exact, instructions: instructions, effects: try replay.effects(in: lineage, writer),
            decisions: try decisions(on: entry.version, anonymizer))
    }

    /// A comparison of the upload, if it is kept, with what entered the log, without reasons.
    private func comparison(
        of entry: LogEntry, on base: ServerVersion, _ anonymizer: Anonymizer?
    ) throws(HistoryError) -> Explanation {
        var sent = entry
        let upload = try received(entry.version)
        sent.changeset = upload?.changeset ?? entry.changeset
        var arena = ChangesetArena(), rest = try texts(of: entry)[...]
        let index = try sent.decode(into: &arena), writer = FormWriter(of: arena, anonymizedBy: anonymizer)
        let instructions = arena.instructions(of: index).map { instruction in
            let form = writer.form(of: instruction), isLogged = rest.first == arena.text(of: instruction)
            if isLogged { rest.removeFirst() }
            return Explanation.Instruction(uploaded: form, logged: isLogged ? form : nil, isRefused: false)
        }
        return Explanation(
            author: writer.author(try Author(of: entry, in: self)), base: base,
            unseenCount: try unseenCount(of: entry, on: base), isUploadKept: upload != nil,
            certainty: upload == nil ? .uploadForgotten : .approximate,
            instructions: instructions, effects: [], decisions: try decisions(on: entry.version, anonymizer))
    }

    /// Rules and queries hold names and values that are not to be seen in an anonymous history.
    private func decisions(
        on version: ServerVersion, _ anonymizer: Anonymizer?
    ) throws(HistoryError) -> [ViewDecision] {
        let decisions = try decisions(on: version)
        guard let anonymizer else { return decisions }
        return decisions.map { decision in
            var decision = decision
            decision.object = anonymizer.object(decision.object)
            (decision.role, decision.text) = (nil, nil)
            return decision
        }
    }

    private func texts(of entry: LogEntry) throws(HistoryError) -> [String] {
        var arena = ChangesetArena()
        let index = try entry.decode(into: &arena)
        return arena.instructions(of: index).map { arena.text(of: $0) }
    }

    private func unseenCount(of entry: LogEntry, on base: ServerVersion) throws(HistoryError) -> Int {
        let unseen = VersionRange(after: base, through: entry.version - 1)
        return unseen.isEmpty ? 0 : try versions(in: unseen, excludingOrigin: entry.origin).count
    }
}

extension VersionReplay {
    /// The most bytes that the effects may have as text and JSON: one large value may take part in many.
    private static let effectBytesMax = 64 << 20

    /// The instructions that were uploaded, and what merging again has made of them.
    ///
    /// - Parameters:
    ///   - texts: The instructions that the log has, in words.
    ///   - isExact: True if merging again gave the bytes of the log.
    ///   - writer: Of the merged arena.
    /// - Returns: Nil if the log has something else than what is left, or less of it in another order. Less of it was
    ///   refused.
    mutating func instructions(
        logging texts: [String], isExact: Bool, _ writer: FormWriter, _ anonymizer: Anonymizer?
    ) throws(HistoryError) -> [Explanation.Instruction]? {
        var arena = ChangesetArena()
        let uploaded = try decodeUploaded(into: &arena)
        let uploadWriter = FormWriter(of: arena, anonymizedBy: anonymizer)
        var rest = texts[...], result: [Explanation.Instruction] = []
        for (before, after) in zip(uploaded, merge.arena.ownInstructions(of: merge.incoming[0])) {
            let logged = after.map(writer.form)
            var isRefused = false
            if let after, !isExact {
                isRefused = rest.first != merge.arena.text(of: after)
                if !isRefused { rest.removeFirst() }
            }
            result.append(
                Explanation.Instruction(
                    uploaded: uploadWriter.form(of: before), logged: isRefused ? nil : logged,
                    isRefused: isRefused))
        }
        return isExact || rest.isEmpty ? result : nil
    }

    /// The effects of rules on the version's own instructions and on those that they met.
    func effects(in lineage: any FileView, _ writer: FormWriter) throws(HistoryError) -> [Explanation.Effect] {
        var authors: [ChangesetIndex: Author] = [:], effects: [Explanation.Effect] = [], bytes = 0
        func side(_ side: RuleOutcome.Side) -> Explanation.Side {
            Explanation.Side(
                before: writer.form(of: side.before), after: side.after.map(writer.form), isAffected: side.isAffected)
        }
        for outcome in merge.outcomes {
            let met = outcome.major.changeset
            if authors[met] == nil, let version = merge.version(ofEntry: met),
                let entry = try lineage.entry(ServerVersion(rawValue: version))
            {
                authors[met] = writer.author(try Author(of: entry, in: lineage))
            }
            guard let author = authors[met] else { continue }
            let effect = Explanation.Effect(
                rule: outcome.rule, position: outcome.minor.position, own: side(outcome.minor),
                other: side(outcome.major), author: author)
            bytes += effect.own.byteCount + effect.other.byteCount
            guard bytes <= Self.effectBytesMax else {
                throw HistoryError(.tooLarge, "the values that a version met are too large to be explained")
            }
            effects.append(effect)
        }
        return effects
    }
}

extension Explanation.Side {
    fileprivate var byteCount: Int {
        [before, after].reduce(0) { $0 + ($1?.text.utf8.count ?? 0) + ($1?.json.utf8.count ?? 0) }
    }
}
