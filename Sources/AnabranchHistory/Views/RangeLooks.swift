import AnabranchCore
import DequeModule

/// The findings about a range of the log, for one view, while the log grows. Each step goes on where the last one has
/// ended: first the entries are read, then the objects that they touch are looked at in the state, and at last the
/// entries are appended to the log of the view, as far as the view sees them.
final class RangeLooks {
    private struct Look {
        let className: [UInt8]
        /// The object before the range; nil if nobody knows it: the object may have been in the view.
        let before: ViewLook?
        /// True while the object has to be looked at.
        var isWaiting = false
    }

    /// The views of the client and the log that they follow.
    struct Place {
        /// The view at the beginning of the range, and the same with the role that it gets.
        let view, now: ClientView
        /// The newest version of the client that the log has.
        let clientVersion: ClientVersion
        /// True if the view has got the entries of the range as they are in the log.
        let isInLog: Bool
        let head: ServerVersion
        /// The state there, and the same without objects.
        let state, empty: ObjectGraph
        let file: any FileView
    }

    /// The largest size of a range that is read once, in bytes: its entries stay in memory.
    private static let keptBytesMax = 4 << 20
    /// The number of bytes of entries that are read at once.
    private static let readBytes = 256 << 10

    private var looks: [ObjectReference: Look] = [:]
    private var waiting: Deque<ObjectReference> = []
    private var hidden = HiddenObjects()
    private var outcomes: [ObjectReference: ViewProjection.Outcome] = [:]
    /// The number of objects that do not stay.
    private var movedCount = 0
    /// The entries that were read; nil if they are too many to be kept.
    private var entries: [LogEntry]? = []
    private var entryBytes = 0
    /// The versions of entries that say something about the schema.
    private(set) var schemaVersions: [ServerVersion] = []
    /// The end of what was read, and of what was appended; nil before the first step.
    private var readEnd, appendedEnd: ServerVersion?
    /// The view with what was appended.
    private var appended: ClientView?
    private var appendedCount = 0
    /// The size of the changesets that were appended and are not as in the log, in bytes.
    private var changedBytes = 0

    /// The objects that the range touches.
    var objects: Set<ObjectReference> { Set(looks.keys) }

    /// About how much is kept, as a number of objects.
    var count: Int {
        looks.count + appendedCount + (changedBytes + (entries == nil ? 0 : entryBytes)) / 1_024
    }

    /// The changes of the view that follow.
    func projection(in state: ObjectGraph) -> ViewProjection {
        ViewProjection(of: outcomes, doAllStay: movedCount == 0, in: state)
    }

    /// The entries that were appended to the log of a view.
    func appended(to view: ClientView) -> ArraySlice<ViewEntry> {
        appended?.log.entries(after: view.log.lastNumber) ?? []
    }

    /// Goes on until the step is over.
    /// - Returns: whether everything is done up to the end of the log.
    func advance(at place: Place, until limit: StepLimit) throws(HistoryError) -> Bool {
        guard try read(at: place, until: limit), try look(at: place, until: limit) else { return false }
        return try append(at: place, until: limit)
    }

    // MARK: Reading

    private func read(at place: Place, until limit: StepLimit) throws(HistoryError) -> Bool {
        let range = VersionRange(after: readEnd ?? place.view.projected, through: place.head)
        var replay = LogReplay(range, stepBytes: Self.readBytes)
        while !replay.isDone {
            for entry in try replay.next(from: place.file) {
                try record(entry, at: place)
                readEnd = entry.version
                if limit.isOver { return false }
            }
            readEnd = replay.rest.base
        }
        return true
    }

    private func record(_ entry: LogEntry, at place: Place) throws(HistoryError) {
        entryBytes += entry.byteCount
        if entryBytes > Self.keptBytesMax { entries = nil } else { entries?.append(entry) }
        let touched = try place.state.touched(by: entry)
        if touched.changesSchema { schemaVersions.append(entry.version) }
        if touched.objects.contains(where: { looks[$0.0] == nil }) {
            try look(atNew: touched.objects, of: entry, at: place)
        }
        for (object, _) in touched.objects where looks[object]?.isWaiting == false {
            looks[object]?.isWaiting = true
            waiting.append(object)
        }
        try hidden.record(entry, touching: touched.objects, from: place.now.role, in: place.empty)
    }

    /// Looks at the objects that no entry before has touched, as this one found them.
    private func look(
        atNew touched: [(ObjectReference, className: [UInt8])], of entry: LogEntry, at place: Place
    ) throws(HistoryError) {
        var before = place.state, unknown: Set<ObjectReference> = []
        if let image = try BeforeImage(of: entry) {
            before = place.empty
            var none: Set<ObjectReference> = []
            unknown = try image.apply(to: &before, passingOver: &none)
        }
        for (object, className) in touched where looks[object] == nil {
            let look =
                unknown.contains(object) ? nil : try ViewLook(at: object, of: className, by: place.view, in: before)
            looks[object] = Look(className: className, before: look)
        }
    }

    // MARK: Looking

    private func look(at place: Place, until limit: StepLimit) throws(HistoryError) -> Bool {
        while let object = waiting.first {
            if let look = looks[object] {
                let isIn = try place.now.includes(object, of: look.className, in: place.state)
                record(outcome(for: object, look, isIn, at: place), for: object)
            }
            looks[object]?.isWaiting = false
            waiting.removeFirst()
            if limit.isOver { return false }
        }
        return true
    }

    private func outcome(
        for object: ObjectReference, _ look: Look, _ isIn: Bool, at place: Place
    ) -> ViewProjection.Outcome {
        guard !place.isInLog else {
            // None has left or entered within the range, except for new ones.
            let wasIn = look.before.map { $0.wasIn || !$0.wasThere && isIn } ?? isIn
            return wasIn ? .stays : .outside
        }
        // Changes made while an object could not be read are never sent; with another role it is unknown when that was.
        let isOther = place.now.role.rules != place.view.role.rules
        let canBeRead = !hidden.found.contains(object) && (!isOther || place.now.role[look.className].read.isAll)
        let wasIn = look.before?.wasIn ?? !place.view.queries[look.className].isNone
        return ViewProjection.Outcome(
            wasThere: look.before?.wasThere ?? true, wasIn: wasIn, isIn: isIn,
            isWhole: look.before != nil && canBeRead)
    }

    private func record(_ outcome: ViewProjection.Outcome, for object: ObjectReference) {
        var outcome = outcome
        // Of an object that is looked at again, what was appended has all changes or none.
        if appendedCount > 0, let old = outcomes[object], old != outcome {
            if outcome == .stays { outcome = .enters } else if outcome == .outside { outcome = .leaves }
        }
        let old = outcomes.updateValue(outcome, forKey: object) ?? .stays
        movedCount += (outcome == .stays ? 0 : 1) - (old == .stays ? 0 : 1)
    }

    // MARK: Appending

    private func append(at place: Place, until limit: StepLimit) throws(HistoryError) -> Bool {
        if appended == nil { (appended, appendedEnd) = (place.view, place.view.projected) }
        let projection = projection(in: place.state)
        while let end = appendedEnd, end < place.head {
            var replay = LogReplay(VersionRange(after: end, through: place.head), stepBytes: Self.readBytes)
            let next: ArraySlice<LogEntry>, nextEnd: ServerVersion
            if let entries {
                (next, nextEnd) = (entries[entries.firstPlace { $0.version > end }...], place.head)
            } else {
                (next, nextEnd) = (try replay.next(from: place.file)[...], replay.rest.base)
            }
            for entry in next {
                let changeset = try projection.filtered(entry)
                if !changeset.isEmpty { appended?.append(entry, changeset, clientVersion: place.clientVersion) }
                if changeset.count < entry.changeset.count { changedBytes += changeset.count }
                (appendedEnd, appendedCount) = (entry.version, appendedCount + 1)
                if limit.isOver { return false }
            }
            appendedEnd = nextEnd
        }
        return true
    }
}
