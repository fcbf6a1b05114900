import AnabranchCore

/// The meaning of a step, or of a range of the log, for views that ask the same: changes to objects that stay are kept
/// as they were made, and objects that leave or enter are erased or created (`Spec/FlexibleSync.md`).
struct ViewProjection {
    /// A view whose log holds more than this, in bytes, is not kept up to date: when its client requests a DOWNLOAD, it
    /// gets the changes since, in no more bytes than the objects concerned have.
    static let logBytesMax = 16 << 20
    /// A client that has more unconfirmed bytes than this when it asks for more has to begin again.
    static let unconfirmedBytesMax = 64 << 20

    /// The outcome for an object that the range touches.
    enum Outcome {
        /// The changes to it are kept.
        case stays
        /// It does not concern the view.
        case outside
        case leaves, enters

        /// - Parameters:
        ///   - wasThere: whether the object existed before the range.
        ///   - wasIn: whether the view had it then.
        ///   - isIn: whether the view has it at the end of the range.
        ///   - isWhole: whether the client may get all the changes to it.
        init(wasThere: Bool, wasIn: Bool, isIn: Bool, isWhole: Bool) {
            self =
                if wasIn {
                    isIn ? (isWhole ? .stays : .enters) : .leaves
                } else if isIn {
                    // Everything that was ever done to a new object is in the range.
                    wasThere || !isWhole ? .enters : .stays
                } else {
                    .outside
                }
        }
    }

    private var outcomes: [ObjectReference: Outcome]
    /// True if all objects stay.
    private var doAllStay: Bool
    /// The state at the end of the range.
    private let state: ObjectGraph

    init(of outcomes: [ObjectReference: Outcome], doAllStay: Bool, in state: ObjectGraph) {
        (self.outcomes, self.doAllStay, self.state) = (outcomes, doAllStay, state)
    }

    /// The part of an entry that concerns the schema, or objects that stay.
    func filtered(_ entry: LogEntry) throws(HistoryError) -> [UInt8] {
        if doAllStay { return entry.changeset }
        var arena = ChangesetArena()
        let index = try entry.decode(into: &arena)
        var discarded: Set<ObjectKeyID> = []
        for object in arena.touchedObjects(of: index) where outcomes[try state.reference(to: object)] != .stays {
            discarded.insert(object.id)
        }
        guard !discarded.isEmpty else { return entry.changeset }
        arena.discardInstructions(on: discarded, of: index)
        return arena.encoded(index)
    }

    /// The same, with all objects that stay in the view sent as a whole.
    private func entirely() -> ViewProjection {
        var projection = self
        projection.outcomes = outcomes.mapValues { $0 == .stays ? .enters : $0 }
        projection.doAllStay = outcomes.isEmpty
        return projection
    }

    private func changesetsOfMoved() throws(HistoryError) -> [[UInt8]] {
        let leaving = outcomes.filter { $1 == .leaves }.keys, entering = outcomes.filter { $1 == .enters }.keys
        return try state.changesets(leaving: leaving.sorted(), entering: entering.sorted())
    }
}

// MARK: A step

extension ViewProjection {
    /// The meaning of a step for views that ask the same and were up to date before it.
    struct Result {
        fileprivate var kept: [(entry: LogEntry, changeset: [UInt8])] = []
        fileprivate var moved: [[UInt8]] = []
        /// The share of each changeset, which all of them have in common.
        fileprivate var shares: [ViewShare] = []
        /// How many entries the step has.
        fileprivate let entryCount: Int

        /// The size of what is made for them, in bytes.
        var byteCount: Int {
            kept.reduce(0) { $0 + ($1.changeset == $1.entry.changeset ? 0 : $1.changeset.count) }
                + moved.reduce(0) { $0 + $1.count }
        }

        /// True if it means nothing to them.
        var isEmpty: Bool { kept.isEmpty && moved.isEmpty }

        /// True if the log alone says it (`FlexibleFile.restore`): one entry, which they have as it is there.
        var isInLog: Bool {
            entryCount == 1 && moved.isEmpty && kept.allSatisfy { $0.changeset == $0.entry.changeset }
        }
    }

    /// - Returns: nil if it cannot be found out before a limit.
    static func result(
        of step: LogStep, for view: ClientView, until limit: StepLimit
    ) throws(HistoryError) -> Result? {
        var looks: [ObjectReference: ViewLook] = [:]
        for (object, className) in step.touched {
            var look = try ViewLook(at: object, of: className, by: view, in: step.before)
            look.isIn = try view.includes(object, of: className, in: step.after)
            looks[object] = look
            if limit.isOver, looks.count < step.touched.count { return nil }
        }
        var hidden = HiddenObjects()
        // There is nothing between the ends of a single entry.
        if step.entries.count > 1 {
            let empty = step.after.withoutObjects
            for entry in step.entries {
                let touched = try step.after.touched(by: entry).objects
                try hidden.record(entry, touching: touched, from: view.role, in: empty)
            }
        }
        var outcomes: [ObjectReference: Outcome] = [:]
        for (object, look) in looks {
            outcomes[object] = Outcome(
                wasThere: look.wasThere, wasIn: look.wasIn, isIn: look.isIn, isWhole: !hidden.found.contains(object))
        }
        let doAllStay = outcomes.values.allSatisfy { $0 == .stays }
        let projection = ViewProjection(of: outcomes, doAllStay: doAllStay, in: step.after)
        var result = Result(entryCount: step.entries.count)
        for entry in step.entries {
            let changeset = try projection.filtered(entry)
            if !changeset.isEmpty { result.kept.append((entry, changeset)) }
        }
        result.moved = try projection.changesetsOfMoved()
        result.shares = (0..<result.kept.count + result.moved.count).map { _ in .new }
        return result
    }
}

extension ClientView {
    /// - Parameters:
    ///   - version: the end of the step.
    ///   - clientVersion: the newest one of the client that the log has.
    ///   - isKnown: whether another view has got the same.
    mutating func append(
        _ result: ViewProjection.Result, endingAt version: ServerVersion, _ clientVersion: ClientVersion, isKnown: Bool
    ) {
        var shares = result.shares[...]
        func share() -> ViewShare? {
            var share = shares.popFirst()
            share?.isKnown = isKnown
            return share
        }
        for (entry, changeset) in result.kept {
            append(entry, changeset, clientVersion: clientVersion, share: share())
        }
        for changeset in result.moved {
            appendSynthetic(version, clientVersion: clientVersion, changeset, share: share())
        }
        projected = version
    }

    /// True if more is added to its log only when the client asks.
    var isLogFull: Bool { log.steadyBytes > ViewProjection.logBytesMax }
}

// MARK: Looks

/// The presence of an object in a view before something happens, and after it.
struct ViewLook {
    let wasThere: Bool
    let wasIn: Bool
    var isIn = false

    /// - Parameter state: the state before it.
    init(
        at object: ObjectReference, of className: [UInt8], by view: ClientView, in state: ObjectGraph
    ) throws(HistoryError) {
        let found = try state.read(object, view.decides(in: className))
        wasThere = found != nil
        wasIn = if let found { try view.includes(found, of: className, in: state) } else { false }
    }
}

// MARK: A range of the log

extension ViewProjection {
    /// Extends the log of a view that was left behind with the entries of the file's log after `ClientView.projected`.
    ///
    /// - Parameters:
    ///   - head: the end of the log, or of the part of it that is sent; no entry of the client itself lies between
    ///     `projected` and this.
    ///   - state: the state there.
    ///   - role: the role that the view gets there; for objects that the range does not touch, the caller still has to
    ///     apply it.
    ///   - clientVersion: the newest one of the client that the log has.
    ///   - longRangeBytes: the size, in bytes, above which a range is sent as whole objects, if that is shorter.
    ///   - looks: the findings about the range, with which an earlier call has ended that took too long.
    ///   - isInLog: whether the view has got the entries of the range as they are in the log.
    /// - Returns: the objects that the range touches. If these are sent as a whole, in parts, the view ends beyond the
    ///   log. Nil if the step is over before all is known: then the view is unchanged.
    static func extend(
        _ view: inout ClientView, to head: ServerVersion, _ state: ObjectGraph, as role: ViewRole,
        clientVersion: ClientVersion, longRangeBytes: Int, reading file: any FileView, knowing looks: RangeLooks,
        isInLog: Bool = false, until limit: StepLimit
    ) throws(HistoryError) -> Set<ObjectReference>? {
        guard view.projected < head else { return [] }
        try require(
            view.log.steadyBytes <= unconfirmedBytesMax, .clientFileExpired,
            "the client has not confirmed \(view.log.steadyBytes) bytes")
        var now = view
        now.role = role
        let place = RangeLooks.Place(
            view: view, now: now, clientVersion: clientVersion, isInLog: isInLog, head: head, state: state,
            empty: state.withoutObjects, file: file)
        guard try looks.advance(at: place, until: limit) else { return nil }
        let projection = looks.projection(in: state)
        var extended = view
        extended.log.append(looks.appended(to: view))
        let moved = try projection.changesetsOfMoved()
        let bytes = extended.log.steadyBytes - view.log.steadyBytes + moved.reduce(0) { $0 + $1.count }
        let whole = projection.entirely()
        let parts = bytes > longRangeBytes && head > view.projected + 1 ? try whole.changesetsOfMoved() : []
        if parts.isEmpty || parts.reduce(0, { $0 + $1.count }) >= bytes {
            for changeset in moved { extended.appendSynthetic(head, clientVersion: clientVersion, changeset) }
            extended.projected = head
            view = extended
        } else {
            for version in looks.schemaVersions {
                let entry = try file.requiredEntry(version), changeset = try whole.filtered(entry)
                if !changeset.isEmpty { view.append(entry, changeset, clientVersion: clientVersion) }
            }
            for (part, changeset) in parts.enumerated() {
                // A version of its own for each, so that the client confirms one after the other.
                view.projected = head + 1 + UInt64(part)
                view.appendSynthetic(view.projected, clientVersion: clientVersion, changeset)
            }
        }
        return looks.objects
    }

    /// The state at an earlier version, as far as queries ask for it.
    static func state(
        at version: ServerVersion, before state: ObjectGraph, at head: ServerVersion, reading file: any FileView
    ) throws(HistoryError) -> ObjectGraph {
        var before = state, known: Set<ObjectReference> = []
        try forEachEntry(of: VersionRange(after: version, through: head), in: file) { entry throws(HistoryError) in
            _ = try BeforeImage(of: entry)?.apply(to: &before, passingOver: &known)
        }
        return before
    }

    private static func forEachEntry(
        of range: VersionRange, in file: any FileView, _ body: (LogEntry) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        var replay = LogReplay(range)
        while !replay.isDone { for entry in try replay.next(from: file) { try body(entry) } }
    }
}

extension ObjectGraph {
    /// The objects that an entry of the log touches, with the names of their classes, and whether it says something
    /// about the schema.
    func touched(
        by entry: LogEntry
    ) throws(HistoryError) -> (objects: [(ObjectReference, className: [UInt8])], changesSchema: Bool) {
        var arena = ChangesetArena()
        let index = try entry.decode(into: &arena), touched = ChangesetObjects(of: index, in: arena)
        let objects = try (0..<touched.count).map { position throws(HistoryError) in
            let object = touched.object(at: position, in: arena)
            return (try reference(to: object), className: object.className)
        }
        return (objects, touched.changesSchema)
    }

    /// The approximate size at which a synthetic changeset ends, in bytes.
    static let syntheticBytes = 1 << 20

    /// The changesets that take objects out of a view, and others into it.
    /// - Parameter bytesMax: the size after which no more are made, in bytes.
    func changesets(
        leaving: [ObjectReference], entering: [ObjectReference], endingAt bytes: Int = syntheticBytes,
        bytesMax: Int = .max
    ) throws(HistoryError) -> [[UInt8]] {
        var changesets = ObjectChangesets(of: entering, after: leaving, in: self, endingAt: bytes)
        var made: [[UInt8]] = [], madeBytes = 0
        do {
            try readTogether { () throws(ApplyError) in
                while madeBytes <= bytesMax, let changeset = try changesets.next() {
                    made.append(changeset)
                    madeBytes += changeset.count
                }
            }
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
        return made
    }
}
