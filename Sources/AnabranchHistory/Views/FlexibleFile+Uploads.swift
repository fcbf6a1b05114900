package import AnabranchCore
import DequeModule

/// Uploads: those of one client one after the other, those of different clients in turn, a window of changesets at a
/// time. A merge that takes longer than a step is set aside, and goes on while others upload; so is that of a client
/// that has to catch up first.
extension FlexibleFile {
    /// The uploads of one client that are not integrated.
    struct ClientUploads {
        fileprivate var waiting: [(upload: Upload, time: UInt64)] = []
        fileprivate var current: ViewUpload?
        /// The number of changesets that can be integrated together, if the last window had too many.
        fileprivate var windowCountMax: Int?
        fileprivate var refusals = Refusals()
        /// True if the merge has not ended within one step.
        fileprivate var isSetAside = false
        /// True if the client had to catch up when it came with the first of them.
        fileprivate var isOfReturning = false

        fileprivate var mergeBytes: Int { current?.memoryBytes ?? 0 }
    }

    /// The outcome of an upload.
    package struct UploadOutcome: Sendable {
        package let ident: ClientFileID
        /// The objects that were refused.
        package var refusals = Refusals()
        /// The reason why it is refused, with all that the client has sent after it; nil if it is not refused.
        package var refusal: HistoryError?
        /// How many uploads are done with.
        package var uploadCount = 1
        /// True if the client had to catch up when it came with them.
        package internal(set) var isOfReturning = false
    }

    /// Queues what `SessionProgress.accept` has left of an upload.
    /// - Parameter time: seconds since 1970.
    package func enqueue(_ upload: Upload, from ident: ClientFileID, at time: UInt64) {
        let isFirst = uploads[ident] == nil
        uploads[ident, default: ClientUploads()].waiting.append((upload, max(1, time)))
        guard isFirst else { return }
        uploads[ident]?.isOfReturning = !index.contains(ident)
        queue(ident)
    }

    /// Queues a client for its next turn. Merges that are set aside, and uploads of clients that have to catch up
    /// first, come after what others upload.
    private func queue(_ ident: ClientFileID) {
        guard let uploads = uploads[ident] else { return }
        if uploads.isSetAside || !index.contains(ident) { longUploads.append(ident) } else { newUploads.append(ident) }
    }

    /// How many clients have uploads that are not integrated.
    package var waitingClientCount: Int { uploads.count }

    /// True while uploads of a client are not integrated.
    package func hasUploads(of ident: ClientFileID) -> Bool { uploads[ident] != nil }

    /// True while uploads wait that were not begun, or are not set aside.
    package var hasNewUploads: Bool { !newUploads.isEmpty }

    /// True while a merge is set aside, or a client with uploads has to catch up.
    package var hasLongUploads: Bool { !longUploads.isEmpty }

    /// The number of uploads of one client after which others have their turn: as many small ones as are stored
    /// together write the rows of the client once.
    private static let uploadsOfTurnMax = 8

    /// Merges and integrates new uploads until the step is over, or too much waits to be stored.
    /// - Throws: a failure of the store, after which the file can no longer be used.
    package func integrateNew(until limit: StepLimit) throws(HistoryError) -> [UploadOutcome] {
        var outcomes: [UploadOutcome] = []
        while let ident = newUploads.popFirst() {
            if let outcome = try takeTurn(of: ident, until: limit) { outcomes.append(outcome) }
            queue(ident)
            if limit.isOver || isDraftFull { break }
        }
        return outcomes
    }

    /// Goes on with one merge that is set aside.
    /// - Throws: as `integrateNew`.
    package func integrateLong(until limit: StepLimit) throws(HistoryError) -> UploadOutcome? {
        guard let ident = longUploads.popFirst() else { return nil }
        let outcome = try takeTurn(of: ident, until: limit)
        queue(ident)
        return outcome
    }

    /// Takes the turn of a client: a step of its first upload and, if that is done with, of those that follow it.
    /// - Returns: what became of the uploads that are done with now; nil if none is.
    private func takeTurn(of ident: ClientFileID, until limit: StepLimit) throws(HistoryError) -> UploadOutcome? {
        let isOfReturning = uploads[ident]?.isOfReturning ?? false
        guard var outcome = try step(ident, until: limit) else { return nil }
        outcome.isOfReturning = isOfReturning
        // Catching up may have taken the whole step.
        let limit = isOfReturning && limit.isOver ? quota?.step() ?? limit : limit
        while outcome.uploadCount < Self.uploadsOfTurnMax, !limit.isOver, !isDraftFull,
            let next = try step(ident, until: limit)
        {
            outcome.refusals += next.refusals
            outcome.refusal = next.refusal
            outcome.uploadCount += next.uploadCount
        }
        return outcome
    }

    /// Forgets the uploads of a client that brings them elsewhere.
    func forgetUploads(of ident: ClientFileID) {
        guard let count = uploads[ident]?.waiting.count else { return }
        dropped[ident, default: 0] += count
        dropUploads(of: ident)
    }

    /// Lets all merges begin again.
    func restartUploads() {
        for ident in uploads.keys { uploads[ident]?.current = nil }
        trying = []
    }

    private func restartUpload(of ident: ClientFileID) {
        uploads[ident]?.current = nil
        trying.remove(ident)
    }

    /// The memory that merges under way occupy, in bytes.
    package var mergeBytes: Int { uploads.values.reduce(0) { $0 + $1.mergeBytes } }

    /// Gives up all merges, to free their memory.
    package func dropMerges() {
        restartUploads()
        forgetTouched()
    }

    /// Bounds the memory of merges under way after a step of a client: beside the first, the largest begins anew.
    private func limitMerges(afterStepOf ident: ClientFileID) {
        guard uploads[ident]?.current != nil else { return }
        if firstMerge.flatMap({ uploads[$0]?.current }) == nil { firstMerge = ident }
        let others = uploads.filter { $0.key != firstMerge && $0.value.current != nil }
        guard others.values.reduce(0, { $0 + $1.mergeBytes }) > mergeBytesMax,
            let largest = others.max(by: { ($0.value.mergeBytes, $0.key) < ($1.value.mergeBytes, $1.key) })
        else { return }
        restartUpload(of: largest.key)
    }

    private func dropUploads(of ident: ClientFileID) {
        endUploads(of: ident)
        trying.remove(ident)
        forgetTouched()
    }

    /// True if too much waits to be stored for anything more to be added.
    package var isDraftFull: Bool { file.deferredBytes > Self.draftBytesMax }

    /// Integrates an upload at once, for callers that take no turns.
    /// - Parameter time: seconds since 1970.
    /// - Returns: the objects that were refused.
    /// - Throws: the reason why it is refused, or a failure of the store.
    @discardableResult
    package func integrate(
        _ upload: Upload, from ident: ClientFileID, at time: UInt64
    ) throws(HistoryError) -> Refusals {
        enqueue(upload, from: ident, at: time)
        var refusals = Refusals()
        while hasUploads(of: ident) {
            let outcomes =
                hasNewUploads ? try integrateNew(until: .none) : try integrateLong(until: .none).map { [$0] } ?? []
            for outcome in outcomes {
                if let refusal = outcome.refusal { throw refusal }
                refusals += outcome.refusals
            }
        }
        return refusals
    }

    // MARK: One client

    /// Takes one step for a client: a window is integrated, or its merge goes on.
    /// - Returns: what became of an upload that is done with now.
    private func step(_ ident: ClientFileID, until limit: StepLimit) throws(HistoryError) -> UploadOutcome? {
        guard file.isShared else { return try stepOnce(ident, until: limit) }
        for _ in 0..<Self.triesOfStepMax {
            do throws(HistoryError) {
                try takeIn()
                return try stepOnce(ident, until: limit)
            } catch {
                guard error.code == .conflict else { throw error }
                try file.follow()
            }
        }
        // The next step goes on, after those of other clients.
        uploads[ident]?.isSetAside = true
        return nil
    }

    /// The number of times that others may write during a step before it is over.
    private static let triesOfStepMax = 8

    private func stepOnce(_ ident: ClientFileID, until limit: StepLimit) throws(HistoryError) -> UploadOutcome? {
        guard var mine = uploads[ident], let (upload, time) = mine.waiting.first else { return nil }
        if let quota, quota.isUsedUp(ident) {
            dropUploads(of: ident)
            overQuota.insert(ident)
            return UploadOutcome(ident: ident, uploadCount: mine.waiting.count)
        }
        do throws(HistoryError) {
            guard let view = try projected(ident, until: limit) else {
                uploads[ident]?.isSetAside = true
                return nil
            }
            let row = try uploader(ident)
            let current =
                mine.current
                ?? ViewUpload(
                    upload, from: row, of: view, options: file.mergeOptions,
                    WriteCheck(ofParts: checkedCount) { [weak self] in self?.quota?.step() ?? .none },
                    windowCountMax: mine.windowCountMax)
            mine.current = current
            var limit = limit
            mine.isSetAside = try !current.advance(view, until: &limit, asking: source(of: ident))
            if !mine.isSetAside {
                let count = current.windowCount
                if let refusals = try integrateOrGoBack(current, row, into: view, at: time) {
                    mine.refusals += refusals
                    mine.isSetAside = current.check.isOver
                } else {
                    (mine.current, mine.windowCountMax) = (nil, count - current.windowCount)
                    mine.isSetAside = true
                    trying.remove(ident)
                }
            }
        } catch {
            if error.code == .conflict { keep(mine.current, of: ident) }
            guard !error.isStoreFailure, error.code != .conflict else { throw error }
            dropUploads(of: ident)
            return UploadOutcome(ident: ident, refusal: error, uploadCount: mine.waiting.count)
        }
        guard !mine.isSetAside, mine.current?.isDone == true else {
            uploads[ident] = mine
            limitMerges(afterStepOf: ident)
            return nil
        }
        let outcome = UploadOutcome(ident: ident, refusals: mine.refusals)
        mine.waiting.removeFirst()
        (mine.current, mine.windowCountMax, mine.refusals) = (nil, nil, Refusals())
        if mine.waiting.isEmpty { endUploads(of: ident) } else { uploads[ident] = mine }
        return outcome
    }

    /// Keeps the merge of a client whose step others have overtaken, unless its window is to be smaller.
    private func keep(_ current: ViewUpload?, of ident: ClientFileID) {
        guard let current, current.isTooSlow else {
            uploads[ident]?.current = current
            return
        }
        restartUpload(of: ident)
        uploads[ident]?.windowCountMax = current.windowCount / 2
    }

    private func endUploads(of ident: ClientFileID) {
        uploads[ident] = nil
        if let view = views[ident] { markAway(view) }
    }

    private func source(of ident: ClientFileID) -> ViewUpload.Source {
        ViewUpload.Source { [file] search, limit throws(HistoryError) in
            try file.read(missesTail: false) { [head = file.head] stored throws(HistoryError) in
                var search = search, limit = limit
                let isOver = try search.advance(
                    past: PendingLog(continuing: stored, head: head), excludingOrigin: ident, until: &limit)
                return (search, limit, isOver: isOver)
            }
        } load: { entries throws(HistoryError) in
            try self.loaded(entries, of: ident)
        }
    }

    private func uploader(_ ident: ClientFileID) throws(HistoryError) -> ClientFile {
        guard let found = try clientFile(ident), found.salt != 0 else {
            throw HistoryError(.badClientFileIdent, "there is no client file \(ident)")
        }
        try require(!found.isExpired, .clientFileExpired, "the client file has expired")
        if !file.isOwnSession(of: found) { try requireSession(of: ident) }
        return found
    }

    /// Integrates a window of an upload. If others have written meanwhile, the merge is as it was.
    /// - Returns: as `integrateWindow`.
    private func integrateOrGoBack(
        _ upload: ViewUpload, _ row: ClientFile, into view: ClientView, at time: UInt64
    ) throws(HistoryError) -> Refusals? {
        guard file.isShared else { return try integrateWindow(of: upload, row, into: view, at: time) }
        let checkpoint = upload.checkpoint
        do throws(HistoryError) {
            return try integrateWindow(of: upload, row, into: view, at: time)
        } catch {
            guard error.code == .conflict else { throw error }
            upload.goBack(to: checkpoint)
            // Of what the check has found, it has to hear what others touch.
            trying.insert(view.ident)
            throw error
        }
    }

    /// Integrates a window of an upload, unless the step is over before its first changeset is checked.
    /// - Returns: the objects that were refused; nil if only the changesets that are not in the window any more can be
    ///   integrated in this step and in one commit. Then nothing has happened, and the upload has to be merged again.
    private func integrateWindow(
        of upload: ViewUpload, _ row: ClientFile, into view: ClientView, at time: UInt64
    ) throws(HistoryError) -> Refusals? {
        let state = try currentState(), start = instant(), check = upload.check
        check.begin(for: view.role, at: file.head.version, touched: touched)
        defer {
            if check.isOver { trying.insert(view.ident) } else { trying.remove(view.ident) }
            forgetTouched()
            quota?.charge(view.ident, check.time)
        }
        let limits = ApplyLimits(
            objectBytesMax: file.mergeOptions.objectBytesMax, loadedBytesMax: file.mergeOptions.appliedBytesMax)
        let missesMemory = missesMemory(upload, in: state)
        var integration = try file.read(missesTail: missesMemory) { stored throws(HistoryError) in
            var integration = ViewIntegration(
                into: view, of: row, PendingState(state, within: limits),
                past: PendingLog(continuing: stored, head: file.head), check, isSchemaFixed: isSchemaFixed,
                undoingBytesMax: undoingBytesMax, versionSalt: file.versionSalt, fields: fields, time: time)
            try integration.integrate(upload)
            return integration.outcome
        }
        // Not even the first changeset.
        if check.isOver, integration.file.uploadCursor == row.uploadCursor { return Refusals() }
        guard upload.windowCount == 0 else { return nil }
        try record(upload.changedEntries(), in: &integration.view)
        try requireRoom(for: integration.ingested)
        var commit = Commit(file: file.id, lease: file.lease, head: file.head)
        commit.entries = integration.entries
        commit.ingested = integration.ingested
        commit.conflictKeys = integration.conflictKeys
        commit.received = integration.received
        commit.records = integration.decisions
        commit.clientFiles = [integration.file]
        commit.state = integration.state
        let step = LogStep(
            integration.entries, about: integration.subjects, from: state, to: integration.state?.after ?? state)
        try self.commit(integration.view, in: commit, step)
        ownVersions[view.ident] = nil
        upload.didIntegrate(in: instant() - start)
        return integration.refusals
    }

    /// The size of a changeset, in bytes, above which it most likely needs objects that are not in memory.
    private static let littleBytes = 8 << 10

    /// False if a window is one small changeset, and what it is about is in memory: then the store is hardly asked. In
    /// a shared store it always is, since nothing is refused because of this node's memory alone.
    private func missesMemory(_ upload: ViewUpload, in state: ObjectGraph) -> Bool {
        let window = Array(upload.window.prefix(2))
        guard !file.isShared, window.count == 1, let (sent, index) = window.first,
            sent.changeset.count <= Self.littleBytes, let tail = file.tail, sent.cursor.serverVersion >= tail.base
        else { return true }
        return upload.arena.touchedObjects(of: index).contains { object in
            guard let number = state.classID(of: object.className) else { return false }
            return state.containsInMemory(ObjectReference(classID: number, key: object.key)) == nil
        }
    }

    /// Records the forms that entries of a view have now.
    private func record(
        _ forms: [(version: UInt64, changeset: [UInt8])], in view: inout ClientView
    ) throws(HistoryError) {
        let forms = forms.filter { $0.version >= view.log.firstNumber }
        let entries = forms.flatMap { view.log.entries(after: $0.version - 1).prefix(1) }
        view.log.load(try loaded(entries, of: view.ident))
        for (number, changeset) in forms { view.log.merge(number, into: changeset) }
    }

    /// As `SyncedFile.recordProgress`; false while uploads of the client wait, since the progress comes after them.
    package func recordProgress(
        _ upload: Upload, from ident: ClientFileID, at time: UInt64
    ) throws(HistoryError) -> Bool {
        guard !hasUploads(of: ident), try file.recordProgress(upload, from: ident, at: time) else { return false }
        recordConfirmed(views[ident]?.confirm(upload.progress.serverVersion) ?? 0, by: ident)
        release(ident)
        return true
    }
}
