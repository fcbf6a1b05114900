import AnabranchCore

/// Integrates what one client has uploaded and `ViewUpload` has merged with the log of its view: leaves out what the
/// client may not write, and has that undone on the client (`Spec/FlexibleSync.md`). Changes nothing but itself.
struct ViewIntegration {
    /// What is there before.
    private let log: PendingLog
    private let isSchemaFixed: Bool
    private let versionSalt: Salt
    /// What before-images put back.
    private let fields: FieldNames
    /// Seconds since 1970.
    let time: UInt64

    private(set) var view: ClientView
    private(set) var file: ClientFile
    private(set) var state: PendingState
    private(set) var entries: [LogEntry] = []
    private(set) var conflictKeys: [ConflictKeyEntry] = []
    private(set) var received: [ReceivedChangeset] = []
    /// The objects of asymmetric classes.
    var ingested: [IngestedObject] = []
    /// What queries and rules say about the present changeset.
    private let evaluations: Evaluations
    /// Which objects were refused, by the client version of the changeset.
    private(set) var refusals: [(clientVersion: ClientVersion, objects: [CompensatingWrite.Object])] = []

    /// - Parameters:
    ///   - view: projected up to the end of the log, with the contents of all that the merge may have changed.
    ///   - state: the state there.
    ///   - evaluations: what is known about the first changeset.
    init(
        into view: ClientView, of file: ClientFile, _ state: PendingState, past log: PendingLog,
        _ evaluations: Evaluations, isSchemaFixed: Bool, versionSalt: Salt, fields: FieldNames, time: UInt64
    ) {
        self.evaluations = evaluations
        self.view = view
        self.file = file
        self.state = state
        self.log = log
        self.isSchemaFixed = isSchemaFixed
        self.versionSalt = versionSalt
        self.fields = fields
        self.time = time
    }

    var version: ServerVersion { entries.last?.version ?? log.version }

    // MARK: Windows

    /// Takes in the window of an upload that is merged with all that the view has, as far as a step goes.
    mutating func integrate(_ upload: ViewUpload) throws(HistoryError) {
        if isSchemaFixed {
            for (_, index) in upload.window { try upload.arena.checkNothingIsAdded(by: index, to: state.graph) }
        }
        var last: UploadCursor?
        while let (sent, index) = upload.window.first(where: { _ in true }) {
            guard try integrate(index, as: sent, of: &upload.arena) else { break }
            evaluations.endChangeset()
            last = sent.cursor
            upload.didIntegrateFirst()
            // What was refused is undone at once, and what follows it is merged with the undoing.
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

    /// Makes a log entry of a changeset, without what is refused of it.
    /// - Returns: false if the step is over before it is known what that is: then nothing has happened.
    private mutating func integrate(
        _ index: ChangesetIndex, as sent: UploadedChangeset, of arena: inout ChangesetArena
    ) throws(HistoryError) -> Bool {
        evaluations.beginChangeset()
        // What is taken in is not in the changeset any more.
        if try ingest(from: index, of: &arena, as: sent) { evaluations.isLimited = false }
        let before = state, check = WriteCheck(of: view, before: before.graph, evaluations)
        if arena.isDirty(index) {
            let isKnown = try check.refuse(lostOf: sent.changeset, keeping: arena.touchedObjects(of: index))
            guard isKnown else { return false }
        }
        guard let unseen = try check.refuse(from: index, of: arena) else { return false }
        arena.discardInstructions(on: unseen, of: index)
        var outcome = try apply(index, of: &arena, on: sent.cursor.serverVersion)
        let role = roleNow
        guard let refused = try check.refuse(from: index, of: arena, after: state.graph, as: role) else {
            state = before.restored()
            return false
        }
        if !refused.isEmpty {
            arena.discardInstructions(on: refused, of: index)
            state = before.restored()
            outcome = try apply(index, of: &arena, on: sent.cursor.serverVersion)
        }
        let touched = try arena.touchedObjects(of: index)
            .map { object throws(HistoryError) in (try state.graph.reference(to: object), object.className) }
        guard let moves = try moves(of: touched, check.refused) else {
            state = before.restored()
            return false
        }
        let isDirty = arena.isDirty(index), ident = view.ident
        let image = try BeforeImage(
            of: touched.map(\.0), in: before.graph, before: state.graph, only: fields)
        append(
            arena.encoded(index), origin: ident, clientVersion: sent.cursor.clientVersion, timestamp: sent.timestamp,
            base: sent.cursor.serverVersion, image)
        for key in arena.conflictKeys(of: index).writes {
            conflictKeys.append(ConflictKeyEntry(key: key, version: version, origin: ident))
        }
        if isDirty {
            received.append(ReceivedChangeset(version: version, time: time, changeset: sent.changeset))
        }
        file.newestReceipt = Receipt(version: version, clientVersion: sent.cursor.clientVersion)
        try follow(role, passingOver: Set(touched.map(\.0)).union(check.refused.keys), sent.cursor.clientVersion)
        try answer(check.refused, moves, sent.cursor.clientVersion)
        if let insertions = outcome.nullInsertions { try restoreNulls(insertions, sent) }
        return true
    }

    /// Which of the objects that the client has written to it does not see behind that, and which of those that were
    /// refused it does; nil if the step is over.
    private func moves(
        of touched: [(ObjectReference, className: [UInt8])],
        _ refused: [ObjectReference: CompensatingWrite.Object]
    ) throws(HistoryError) -> (leaving: [ObjectReference], restored: [ObjectReference])? {
        var leaving: [ObjectReference] = [], restored: [ObjectReference] = [], now = view
        now.role = roleNow
        evaluations.beginPart()
        func isIn(_ object: ObjectReference, _ className: [UInt8]) throws(HistoryError) -> Bool? {
            try evaluations.answer(to: .isSeenAfterwards(object)) { () throws(HistoryError) in
                try now.includes(object, of: className, in: state.graph)
            }
        }
        for (object, className) in touched where refused[object] == nil {
            guard try state.graph.has(object) else { continue }
            guard let isIn = try isIn(object, className) else { return nil }
            if !isIn { leaving.append(object) }
        }
        // In an order that no hash decides: where a step ends others go on.
        for (object, refusal) in refused.sorted(by: { $0.key < $1.key }) {
            guard let isIn = try isIn(object, refusal.className) else { return nil }
            if isIn { restored.append(object) } else { leaving.append(object) }
        }
        return (leaving.sorted(), restored.sorted())
    }

    /// Rules that name what a changeset has added can be used behind it.
    private var roleNow: ViewRole {
        guard let rules = view.rules, state.graph.schemaSize > view.role.schemaSize else { return view.role }
        return ViewRole(rules, in: state.graph)
    }

    /// - Parameter passedOver: what the changeset was about, of which `answer` takes care.
    private mutating func follow(
        _ role: ViewRole, passingOver passedOver: Set<ObjectReference>, _ clientVersion: ClientVersion
    ) throws(HistoryError) {
        guard role.schemaSize > view.role.schemaSize else { return }
        // The index of the file knows nothing of what is not committed.
        var objects = ObjectIndex()
        try view.change(
            to: role, at: version, in: state.graph, clientVersion, finding: &objects, passingOver: passedOver)
    }

    private mutating func apply(
        _ index: ChangesetIndex, of arena: inout ChangesetArena, on base: ServerVersion
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

    /// Has the client undo what was refused, and lose what it has moved out of its view itself.
    private mutating func answer(
        _ refused: [ObjectReference: CompensatingWrite.Object],
        _ moves: (leaving: [ObjectReference], restored: [ObjectReference]), _ clientVersion: ClientVersion
    ) throws(HistoryError) {
        let changesets = try state.graph.changesets(leaving: moves.leaving, entering: moves.restored)
        let objects = refused.sorted { $0.key < $1.key }.map(\.value)
        let write = CompensatingWrite(version: version, clientVersion: clientVersion, objects: objects)
        let undone = objects.isEmpty ? nil : write.told
        for changeset in changesets.dropLast() {
            view.appendSynthetic(version, clientVersion: clientVersion, changeset)
        }
        // What is refused may be there as it was; then there is nothing to be undone, and still something to be told.
        if let changeset = changesets.last ?? undone.map({ _ in [] }) {
            view.appendSynthetic(version, clientVersion: clientVersion, changeset, undoing: undone)
        }
        if !objects.isEmpty { refusals.append((clientVersion, objects)) }
    }

    /// Puts back what the changeset has taken out of sets (`Spec/History.md`, section 16.3), for everybody.
    private mutating func restoreNulls(_ insertions: [UInt8], _ sent: UploadedChangeset) throws(HistoryError) {
        var arena = ChangesetArena()
        let index: ChangesetIndex
        do {
            let tag = OriginTag(timestamp: sent.timestamp, ident: .server)
            index = try arena.decode(insertions, version: version.rawValue + 1, tag: tag)
        } catch {
            throw HistoryError(.badChangeset, "nulls cannot be put back: \(error.reason)")
        }
        // What it brings back was there before the entry that it follows, whose image says so.
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
    /// What it has come to.
    struct Outcome: Sendable {
        var view: ClientView
        var file: ClientFile
        var entries: [LogEntry]
        var conflictKeys: [ConflictKeyEntry]
        var received: [ReceivedChangeset]
        /// Nil if nothing was added to the log.
        var state: StateUpdate?
        var refusals: [CompensatingWrite.Object]
        var ingested: [IngestedObject]
    }

    var outcome: Outcome {
        Outcome(
            view: view, file: file, entries: entries, conflictKeys: conflictKeys, received: received,
            state: entries.last.map { state.update(to: $0.version) }, refusals: refusals.flatMap(\.objects),
            ingested: ingested)
    }
}
