import AnabranchCore

/// Integrates what one client has uploaded and `ViewUpload` has merged with the log of its view: leaves out what the
/// client may not write, and has that undone on the client (`Spec/FlexibleSync.md`). Changes nothing but itself.
struct ViewIntegration {
    /// The approximate size of what is added to the log and told the client at which a window ends, in bytes.
    private static let addedBytesMax = 1 << 20

    /// The log as it was before.
    private let log: PendingLog
    private let isSchemaFixed: Bool
    private let undoingBytesMax: Int
    private let versionSalt: Salt
    /// The properties that before-images put back.
    private let fields: FieldNames
    /// Seconds since 1970.
    let time: UInt64

    private(set) var view: ClientView
    private(set) var file: ClientFile
    private(set) var state: PendingState
    private(set) var entries: [LogEntry] = []
    private var subjects = LogStep.Subjects()
    private(set) var conflictKeys: [ConflictKeyEntry] = []
    private(set) var received: [ReceivedChangeset] = []
    /// The records of decisions about objects.
    private var decisions: [RecordChange] = []
    /// The objects of asymmetric classes.
    private var ingested: [IngestedObject] = []
    private let check: WriteCheck
    private var refusals = Refusals()
    /// The size of what the client had to be told before, in bytes.
    private let toldBytesBefore: Int

    /// - Parameters:
    ///   - view: projected up to the end of the log, with the contents of all that the merge may have changed.
    ///   - state: the state there.
    ///   - check: what it knows of the first changeset.
    ///   - undoingBytesMax: the largest size of what undoes one changeset, in bytes.
    init(
        into view: ClientView, of file: ClientFile, _ state: PendingState, past log: PendingLog,
        _ check: WriteCheck, isSchemaFixed: Bool, undoingBytesMax: Int, versionSalt: Salt, fields: FieldNames,
        time: UInt64
    ) {
        self.check = check
        self.view = view
        toldBytesBefore = view.log.steadyBytes
        self.file = file
        self.state = state
        self.log = log
        self.isSchemaFixed = isSchemaFixed
        self.undoingBytesMax = undoingBytesMax
        self.versionSalt = versionSalt
        self.fields = fields
        self.time = time
    }

    var version: ServerVersion { entries.last?.version ?? log.version }

    // MARK: Windows

    /// True if enough is added for one commit: small changes can have long objects sent to their client.
    private var isFull: Bool {
        let addedBytes = view.log.steadyBytes - toldBytesBefore + entries.reduce(0) { $0 + $1.byteCount }
        return addedBytes >= Self.addedBytesMax
    }

    /// Integrates the window of an upload that is merged with all that the view has, as far as a step goes and one
    /// commit should.
    mutating func integrate(_ upload: ViewUpload) throws(HistoryError) {
        if isSchemaFixed {
            for (_, index) in upload.window { try upload.arena.checkNothingIsAdded(by: index, to: state.graph) }
        }
        var last: UploadCursor?
        while !isFull, let (sent, index) = upload.window.first(where: { _ in true }) {
            guard try integrate(index, as: sent, of: &upload.arena) else { break }
            check.end()
            last = sent.cursor
            upload.didIntegrateFirst()
            // Refused writes are undone at once, and the changesets that follow are merged with the undoing.
            try upload.meetNewest(of: view)
        }
        if upload.isDone {
            file.advance(to: upload.upload.progress, lockedVersion: upload.upload.lockedVersion)
        } else if let last {
            file.advance(to: last, lockedVersion: file.lockedVersion)
        }
        file.lastSeen = time
        view.confirm(file.uploadCursor.serverVersion)
        view.projected = version
    }

    // MARK: Applying

    /// The result of applying a changeset to the state.
    private typealias Applied = (state: PendingState, outcome: PendingState.Outcome)

    /// Makes a log entry of a changeset, without the parts that are refused.
    /// - Returns: false if the step is over before it is known which these are; then nothing has changed.
    private mutating func integrate(
        _ index: ChangesetIndex, as sent: UploadedChangeset, of arena: inout ChangesetArena
    ) throws(HistoryError) -> Bool {
        let before = state, base = sent.cursor.serverVersion
        var whole: Applied?
        guard try look(at: index, as: sent, of: &arena, &whole) else {
            state = before.restored()
            return false
        }
        try ingest(sent)
        let dropped = check.dropped, outcome: PendingState.Outcome
        if let whole, dropped.isEmpty {
            (state, outcome) = whole
        } else {
            arena.discardInstructions(on: dropped, of: index)
            state = before.restored()
            outcome = try apply(index, of: &arena, to: &state, on: base)
        }
        let role = role(in: state.graph), answer = try check.answer(in: arena, state.graph, to: view, as: role)
        let touched = try recordSubjects(of: index, in: arena)
        subjects.changesSchema = subjects.changesSchema || check.changesSchema
        let isDirty = arena.isDirty(index), ident = view.ident
        let image = try BeforeImage(of: touched, in: before.graph, before: state.graph, only: fields)
        append(
            arena.encoded(index), origin: ident, clientVersion: sent.cursor.clientVersion, timestamp: sent.timestamp,
            base: base, image)
        for key in arena.conflictKeys(of: index).writes {
            conflictKeys.append(ConflictKeyEntry(key: key, version: version, origin: ident))
        }
        if isDirty {
            received.append(ReceivedChangeset(version: version, time: time, changeset: sent.changeset))
        }
        if let change = answer.decisions.change(of: version) { decisions.append(change) }
        file.newestReceipt = Receipt(version: version, clientVersion: sent.cursor.clientVersion)
        try follow(role, passingOver: Set(touched).union(answer.refused), sent.cursor.clientVersion)
        try tell(answer, sent.cursor.clientVersion)
        if let insertions = outcome.nullInsertions { try restoreNulls(insertions, sent) }
        return true
    }

    /// Records the objects that a changeset touches.
    private mutating func recordSubjects(
        of index: ChangesetIndex, in arena: ChangesetArena
    ) throws(HistoryError) -> [ObjectReference] {
        try arena.touchedObjects(of: index).map { object throws(HistoryError) in
            let reference = try state.graph.reference(to: object)
            subjects.touched[reference] = object.className
            return reference
        }
    }

    /// Finds out which parts of a changeset are refused, and what becomes of the rest, as far as the step goes.
    /// - Parameter whole: the result of applying the whole changeset, if that was done to find this out.
    /// - Returns: whether all is known.
    private func look(
        at index: ChangesetIndex, as sent: UploadedChangeset, of arena: inout ChangesetArena, _ whole: inout Applied?
    ) throws(HistoryError) -> Bool {
        check.begin(index, sent: sent.changeset, in: arena)
        let ident = view.ident, base = sent.cursor.serverVersion
        var withSchema = state, later = view
        if check.changesSchema { try check.preview([], of: arena, with: &withSchema, from: ident, on: base, past: log) }
        later.role = role(in: withSchema.graph)
        let place = WriteCheck.Place(view: view, later: later, before: state.graph, withSchema: withSchema.graph)
        while !check.isKnown {
            guard let part = try check.nextPart(at: place, in: arena) else { return false }
            var after = state
            if check.isWhole(part) {
                let outcome = try apply(index, of: &arena, to: &after, on: base)
                whole = (after, outcome)
            } else if !part.isEmpty {
                try check.preview(part, of: arena, with: &after, from: ident, on: base, past: log)
            }
            guard try check.look(at: part, in: arena, after: after.graph, at: place) else { return false }
        }
        return true
    }

    /// Takes in the objects of asymmetric classes that the client has created.
    /// - Throws: `writeNotAllowed` if it may not: that cannot be undone.
    private mutating func ingest(_ sent: UploadedChangeset) throws(HistoryError) {
        if !check.refusedEvents.isEmpty {
            var error = HistoryError(.writeNotAllowed, "an object of an asymmetric class may not be created")
            error.refusal = CompensatingWrite(
                version: 0, clientVersion: sent.cursor.clientVersion, objects: check.refusedEvents)
            throw error
        }
        for event in check.events {
            ingested.append(
                try IngestedObject(
                    UInt64(ingested.count), of: version + 1, event.className, event.key, time: time, user: file.user,
                    json: event.json))
        }
    }

    /// The role of the view in a state: rules that name what a changeset has added can be used after it.
    private func role(in state: ObjectGraph) -> ViewRole {
        guard let rules = view.rules, state.schemaSize > view.role.schemaSize else { return view.role }
        return ViewRole(rules, in: state)
    }

    /// - Parameter passedOver: the objects that the changeset was about, which `tell` takes care of.
    private mutating func follow(
        _ role: ViewRole, passingOver passedOver: @autoclosure () -> Set<ObjectReference>,
        _ clientVersion: ClientVersion
    ) throws(HistoryError) {
        guard role.schemaSize > view.role.schemaSize else { return }
        // The index of the file has only what is committed.
        var objects = ObjectIndex()
        try view.change(
            to: role, at: version, in: state.graph, clientVersion, finding: &objects, passingOver: passedOver())
    }

    private func apply(
        _ index: ChangesetIndex, of arena: inout ChangesetArena, to state: inout PendingState, on base: ServerVersion
    ) throws(HistoryError) -> PendingState.Outcome {
        let outcome = try state.apply([index], of: &arena, from: view.ident, on: base, past: log)
        try require(outcome.countInMemory == nil, .tooLarge, "a changeset needs too many objects")
        return outcome
    }

    private mutating func append(
        _ changeset: [UInt8], origin: ClientFileID, clientVersion: ClientVersion, timestamp: ChangesetTime,
        base: ServerVersion?, _ image: BeforeImage
    ) {
        let size = entries.last?.cumulativeSize ?? log.head.cumulativeSize
        entries.append(
            LogEntry(
                version: version + 1, salt: versionSalt, origin: origin, clientVersion: clientVersion,
                timestamp: timestamp, cumulativeSize: size + UInt64(changeset.count), changeset: changeset, base: base,
                section: image.section))
    }

    /// Makes the client undo what was refused, and drop the objects that it has moved out of its view itself.
    private mutating func tell(_ answer: WriteCheck.Answer, _ clientVersion: ClientVersion) throws(HistoryError) {
        var changesets: [[UInt8]] = []
        try check.measure { () throws(HistoryError) in
            changesets = try state.graph.changesets(
                leaving: answer.leaving, entering: answer.restored, bytesMax: undoingBytesMax)
        }
        try require(
            changesets.reduce(0) { $0 + $1.count } <= undoingBytesMax, .writeNotAllowed,
            "what would have to be undone has more than \(undoingBytesMax) bytes")
        let write = CompensatingWrite(version: version, clientVersion: clientVersion, objects: answer.told)
        let undone = answer.told.isEmpty ? nil : write.told
        for changeset in changesets.dropLast() {
            view.appendSynthetic(version, clientVersion: clientVersion, changeset)
        }
        // Refused objects may be unchanged; then there is nothing to undo, but still something to report.
        if let changeset = changesets.last ?? undone.map({ _ in [] }) {
            view.appendSynthetic(version, clientVersion: clientVersion, changeset, undoing: undone)
        }
        refusals.record(answer.refused.count, undone?.objects ?? [])
    }

    /// Puts back the nulls that the changeset has taken out of sets (`Spec/History.md`, section 16.3), for everybody.
    private mutating func restoreNulls(_ insertions: [UInt8], _ sent: UploadedChangeset) throws(HistoryError) {
        var arena = ChangesetArena()
        let index: ChangesetIndex
        do {
            let tag = OriginTag(timestamp: sent.timestamp, ident: .server)
            index = try arena.decode(insertions, version: version.rawValue + 1, tag: tag)
        } catch {
            throw HistoryError(.badChangeset, "nulls cannot be put back: \(error.reason)")
        }
        _ = try recordSubjects(of: index, in: arena)
        // What it restores existed before the entry that it follows, as the image of that entry shows.
        append(
            insertions, origin: 0, clientVersion: 0, timestamp: sent.timestamp, base: nil,
            try BeforeImage(of: [], in: state.graph, before: state.graph, only: fields))
        conflictKeys += arena.conflictKeys(of: index).writes
            .map { ConflictKeyEntry(key: $0, version: version, origin: 0) }
        if let entry = entries.last {
            view.appendMet(entry, clientVersion: sent.cursor.clientVersion)
        }
    }
}

extension ChangesetArena {
    /// - Throws: `destructiveSchemaChange` for the first class or column that a state lacks.
    fileprivate func checkNothingIsAdded(
        by changeset: ChangesetIndex, to state: ObjectGraph
    ) throws(HistoryError) {
        for instruction in instructions(of: changeset) {
            let className = Array(bytes(of: instruction.className)), schema = state.schema(ofClass: className)
            let what: String
            switch instruction.kind {
            case .addTable where schema == nil: what = "adding schema"
            case .addColumn:
                let field = bytes(of: instruction.field)
                guard schema?.property(named: Array(field)) == nil else { continue }
                what = "adding \"\(String(decoding: field, as: UTF8.self))\" in schema"
            default: continue
            }
            throw HistoryError(
                .destructiveSchemaChange,
                """
                non-breaking schema change: \(what) "\(String(decoding: className, as: UTF8.self))", schema changes \
                from clients are restricted when developer mode is disabled
                """)
        }
    }
}

extension ViewIntegration {
    /// The result of the integration.
    struct Outcome: Sendable {
        var view: ClientView
        var file: ClientFile
        var entries: [LogEntry]
        var subjects: LogStep.Subjects
        var conflictKeys: [ConflictKeyEntry]
        var received: [ReceivedChangeset]
        var decisions: [RecordChange]
        /// Nil if nothing was added to the log.
        var state: StateUpdate?
        var refusals: Refusals
        var ingested: [IngestedObject]
    }

    var outcome: Outcome {
        Outcome(
            view: view, file: file, entries: entries, subjects: subjects, conflictKeys: conflictKeys,
            received: received, decisions: decisions, state: entries.last.map { state.update(to: $0.version) },
            refusals: refusals, ingested: ingested)
    }
}
