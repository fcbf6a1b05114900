import AnabranchCore

/// Extends the log of a view by what the log of the file says behind `ClientView.projected`: what happens to objects
/// that stay in the view as it was made, and what enters or leaves as erasing and creating (`Spec/FlexibleSync.md`).
struct ViewProjection {
    /// What a log of a view holds at most, in bytes; a client that lets it grow longer has to begin anew.
    static let logBytesMax = 16 << 20

    /// What becomes of an object that the range touches.
    private enum Outcome {
        /// What was done to it is kept.
        case stays
        /// It is no concern of the view.
        case outside
        case leaves, enters
    }

    /// The state at the end of the range.
    private let state: ObjectGraph
    private var touched: [ObjectReference: [UInt8]] = [:]
    private var outcomes: [ObjectReference: Outcome] = [:]

    /// - Parameters:
    ///   - head: the end of the log, which no entry of the client itself comes before behind `projected`.
    ///   - state: the state there.
    ///   - clientVersion: the newest one of the client that the log has.
    static func extend(
        _ view: inout ClientView, to head: ServerVersion, _ state: ObjectGraph, clientVersion: ClientVersion,
        reading file: any FileView
    ) throws(HistoryError) {
        guard view.projected < head else { return }
        var projection = ViewProjection(state: state)
        let range = VersionRange(after: view.projected, through: head)
        try projection.decide(for: view, in: range, reading: file)
        try projection.append(range, to: &view, clientVersion, reading: file)
        view.projected = head
    }

    private init(state: ObjectGraph) { self.state = state }

    /// Finds out what becomes of the objects.
    private mutating func decide(
        for view: ClientView, in range: VersionRange, reading file: any FileView
    ) throws(HistoryError) {
        var before = state
        var known: Set<ObjectReference> = []
        var replay = LogReplay(range)
        while !replay.isDone {
            for entry in try replay.next(from: file) {
                var arena = ChangesetArena()
                let index = try entry.decode(into: &arena)
                for object in arena.touchedObjects(of: index) {
                    touched[try state.reference(to: object)] = object.className
                }
                try BeforeImage(of: entry)?.apply(to: &before, passingOver: &known)
            }
        }
        for (object, className) in touched {
            let wasThere = try before.has(object)
            let wasIn = try view.includes(object, of: className, in: before)
            let isIn = try view.includes(object, of: className, in: state)
            outcomes[object] =
                if wasIn {
                    isIn ? .stays : .leaves
                } else if isIn {
                    // Of a new one all that was ever done to it is in the range.
                    wasThere ? .enters : .stays
                } else {
                    .outside
                }
        }
    }

    private func append(
        _ range: VersionRange, to view: inout ClientView, _ clientVersion: ClientVersion, reading file: any FileView
    ) throws(HistoryError) {
        var replay = LogReplay(range)
        while !replay.isDone {
            for entry in try replay.next(from: file) {
                let changeset = try filtered(entry)
                if !changeset.isEmpty { view.append(entry, changeset, clientVersion: clientVersion) }
            }
            try view.checkLogBytes()
        }
        let leaving = outcomes.filter { $1 == .leaves }.keys, entering = outcomes.filter { $1 == .enters }.keys
        let changesets = try state.changesets(leaving: leaving.sorted(), entering: entering.sorted())
        for changeset in changesets {
            view.appendSynthetic(range.last, clientVersion: clientVersion, changeset)
        }
        try view.checkLogBytes()
    }

    /// What of an entry concerns the schema, or objects that stay.
    private func filtered(_ entry: LogEntry) throws(HistoryError) -> [UInt8] {
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
}

extension ClientView {
    /// - Throws: `clientFileExpired` if the log has become too long.
    func checkLogBytes() throws(HistoryError) {
        try require(
            logBytes <= ViewProjection.logBytesMax, .clientFileExpired,
            "the client has not confirmed more than \(ViewProjection.logBytesMax) bytes")
    }
}

extension ObjectGraph {
    /// At about how many bytes a synthetic changeset ends.
    private static let syntheticBytes = 1 << 20

    /// The changesets that take objects out of a view, and others into it.
    func changesets(
        leaving: [ObjectReference], entering: [ObjectReference]
    ) throws(HistoryError) -> [[UInt8]] {
        var changesets = ObjectChangesets(
            of: leaving + entering, absent: Set(leaving), in: self, endingAt: Self.syntheticBytes)
        var made: [[UInt8]] = []
        do {
            while let changeset = try changesets.next() { made.append(changeset) }
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
        return made
    }
}
