import AnabranchCore

/// The meaning of a step, or of a range of the log, for views that ask the same: changes to objects that stay are kept
/// as they were made, and objects that leave or enter are erased or created (`Spec/FlexibleSync.md`).
struct ViewProjection {
    /// A view whose log holds more than this, in bytes, is not kept up to date: when its client requests a DOWNLOAD, it
    /// gets the changes since, in no more bytes than the objects concerned have.
    static let logBytesMax = 16 << 20
    /// A client that has more unconfirmed bytes than this when it asks for more has to begin again.
    static let unconfirmedBytesMax = 64 << 20

    /// The largest size of a range of the log that is kept in memory while its meaning is found out, in bytes.
    private static let keptBytesMax = 4 << 20
    /// The time for which a range may be read in each step that looks at its objects.
    private static let longReadingTime = Duration.milliseconds(20)

    /// The outcome for an object that the range touches.
    private enum Outcome {
        /// The changes to it are kept.
        case stays
        /// It does not concern the view.
        case outside
        case leaves, enters
    }

    private var outcomes: [ObjectReference: Outcome] = [:]
    /// True if all objects stay.
    private var doAllStay = true
    /// The state at the end of the range.
    private let state: ObjectGraph

    /// - Parameters:
    ///   - touched: the objects, with the names of their classes.
    ///   - view: one of those that ask the same, with the role that it had before the range.
    ///   - role: the role that it has now.
    ///   - hidden: the objects that could not be read at some time within the range.
    ///   - unknown: the objects of which nobody knows how they were before it: they may have been in the view.
    ///   - looks: which of them the view included before the range, and includes after it.
    ///   - isInLog: whether the view has got the entries of the range as they are in the log.
    private init(
        of touched: [ObjectReference: [UInt8]], for view: ClientView, as role: ViewRole,
        hidden: Set<ObjectReference>, unknown: Set<ObjectReference> = [], _ looks: [ObjectReference: ViewLook],
        isInLog: Bool = false, in state: ObjectGraph
    ) {
        self.state = state
        let isOther = role.rules != view.role.rules
        for (object, className) in touched {
            guard let look = looks[object] else { continue }
            let isUnknown = unknown.contains(object)
            guard !isInLog else {
                // None has left or entered within the range, except for new ones.
                let isIn = isUnknown ? look.isIn : look.wasIn || !look.wasThere && look.isIn
                outcomes[object] = isIn ? .stays : .outside
                continue
            }
            // Changes made while an object could not be read are never sent; with another role it is unknown when that
            // was.
            let wasIn = isUnknown ? !view.queries[className].isNone : look.wasIn
            let isWhole = !isUnknown && !hidden.contains(object) && (!isOther || role[className].read.isAll)
            outcomes[object] =
                if wasIn {
                    look.isIn ? (isWhole ? .stays : .enters) : .leaves
                } else if look.isIn {
                    // Everything that was ever done to a new object is in the range.
                    look.wasThere || !isWhole ? .enters : .stays
                } else {
                    .outside
                }
        }
        doAllStay = outcomes.values.allSatisfy { $0 == .stays }
    }

    /// The part of an entry that concerns the schema, or objects that stay.
    /// - Parameter touched: the objects that the entry touches, if they are known.
    private func filtered(_ entry: LogEntry, touching touched: EntryObjects.Touched? = nil) throws(HistoryError)
        -> [UInt8]
    {
        if doAllStay { return entry.changeset }
        if let touched, touched.allSatisfy({ outcomes[$0.0] == .stays }) { return entry.changeset }
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
        var hidden = HiddenObjects(from: view.role, endingAt: step.after)
        // There is nothing between the ends of a single entry.
        if step.entries.count > 1 {
            for entry in step.entries { try hidden.record(entry, touching: try step.after.touched(by: entry)) }
        }
        let projection = ViewProjection(
            of: step.touched, for: view, as: view.role, hidden: hidden.found, looks, in: step.after)
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

/// The findings about the objects that a range of the log touches, while the log grows.
struct RangeLooks {
    fileprivate private(set) var looks: [ObjectReference: ViewLook] = [:]
    /// By object, the end of the log when it was looked at.
    private var versions: [ObjectReference: ServerVersion] = [:]

    /// The number of objects that were looked at.
    var count: Int { looks.count }

    /// - Parameter version: the version of the newest entry that touches the object.
    fileprivate func isKnown(_ object: ObjectReference, touchedAt version: ServerVersion) -> Bool {
        versions[object].map { $0 >= version } ?? false
    }

    fileprivate mutating func look(
        at object: ObjectReference, of className: [UInt8], by view: ClientView, in before: ObjectGraph,
        by now: ClientView, in state: ObjectGraph, at head: ServerVersion
    ) throws(HistoryError) {
        var look =
            if let known = looks[object] { known } else {
                try ViewLook(at: object, of: className, by: view, in: before)
            }
        look.isIn = try now.includes(object, of: className, in: state)
        looks[object] = look
        versions[object] = head
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
    ///   - objects: the objects of entries that other views have met.
    ///   - looks: the findings about the range from an earlier call that took too long.
    ///   - isInLog: whether the view has got the entries of the range as they are in the log.
    ///   - instant: a clock.
    ///   - limit: the step that begins when the range is read.
    /// - Returns: the objects that the range touches. If these are sent as a whole, in parts, the view ends beyond the
    ///   log. Nil if the step is over before the range is evaluated: then the view is unchanged.
    static func extend(
        _ view: inout ClientView, to head: ServerVersion, _ state: ObjectGraph, as role: ViewRole,
        clientVersion: ClientVersion, longRangeBytes: Int, reading file: any FileView, _ objects: EntryObjects,
        knowing looks: inout RangeLooks, isInLog: Bool = false, instant: () -> ContinuousClock.Instant,
        until limit: () -> StepLimit
    ) throws(HistoryError) -> Set<ObjectReference>? {
        guard view.projected < head else { return [] }
        try require(
            view.log.steadyBytes <= unconfirmedBytesMax, .clientFileExpired,
            "the client has not confirmed \(view.log.steadyBytes) bytes")
        let range = VersionRange(after: view.projected, through: head), start = instant()
        // A short range is read once.
        var entries: [LogEntry]? = [], entryBytes = 0
        var before = state, touched: [ObjectReference: [UInt8]] = [:], known: Set<ObjectReference> = []
        var versions: [ObjectReference: ServerVersion] = [:], unknown: Set<ObjectReference> = []
        var hidden = HiddenObjects(from: role, endingAt: state)
        try forEachEntry(of: range, in: file) { entry throws(HistoryError) in
            entryBytes += entry.changeset.count + entry.section.count
            if entryBytes > keptBytesMax { entries = nil } else { entries?.append(entry) }
            let touchedByEntry = try objects.touched(by: entry, in: state)
            for (reference, className) in touchedByEntry {
                touched[reference] = className
                versions[reference] = entry.version
            }
            if let image = try BeforeImage(of: entry) {
                unknown.formUnion(try image.apply(to: &before, passingOver: &known))
            }
            try hidden.record(entry, touching: touchedByEntry)
        }
        var now = view
        now.role = role
        // In an order that does not depend on hashes: where a step ends, others go on.
        let unknownObjects = versions.filter { !looks.isKnown($0, touchedAt: $1) }.keys.sorted()
        // The range is read again in each step: where that takes long, a step looks at objects for as long.
        let limit = limit(), end = instant(), readingTime = end - start
        let lookingTime = readingTime > longReadingTime ? readingTime : .zero
        for object in unknownObjects {
            let name = touched[object] ?? []
            try looks.look(at: object, of: name, by: view, in: before, by: now, in: state, at: head)
            if limit.isOver, instant() - end >= lookingTime { return nil }
        }
        let projection = ViewProjection(
            of: touched, for: view, as: role, hidden: hidden.found, unknown: unknown, looks.looks, isInLog: isInLog,
            in: state)
        var extended = view
        func append(_ projection: ViewProjection, to view: inout ClientView) throws(HistoryError) {
            func append(_ entry: LogEntry) throws(HistoryError) {
                let changeset = try projection.filtered(entry, touching: objects.touched(by: entry))
                if !changeset.isEmpty { view.append(entry, changeset, clientVersion: clientVersion) }
            }
            guard let entries else { return try forEachEntry(of: range, in: file, append) }
            for entry in entries { try append(entry) }
        }
        try append(projection, to: &extended)
        let moved = try projection.changesetsOfMoved()
        let bytes = extended.log.steadyBytes - view.log.steadyBytes + moved.reduce(0) { $0 + $1.count }
        let whole = projection.entirely()
        let parts = bytes > longRangeBytes && range.last > range.base + 1 ? try whole.changesetsOfMoved() : []
        if parts.isEmpty || parts.reduce(0, { $0 + $1.count }) >= bytes {
            for changeset in moved { extended.appendSynthetic(head, clientVersion: clientVersion, changeset) }
            extended.projected = head
            view = extended
        } else {
            try append(whole, to: &view)
            for (part, changeset) in parts.enumerated() {
                // A version of its own for each, so that the client confirms one after the other.
                view.projected = head + 1 + UInt64(part)
                view.appendSynthetic(view.projected, clientVersion: clientVersion, changeset)
            }
        }
        return Set(touched.keys)
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
    /// The objects that an entry of the log touches, in no order, with the names of their classes.
    func touched(
        by entry: LogEntry
    ) throws(HistoryError) -> [(ObjectReference, className: [UInt8])] {
        var arena = ChangesetArena()
        let index = try entry.decode(into: &arena)
        return try arena.touchedObjects(of: index).map { object throws(HistoryError) in
            (try reference(to: object), object.className)
        }
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
            try readTogether(leaving.count + entering.count) { () throws(ApplyError) in
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
