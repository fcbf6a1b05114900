import AnabranchCore

/// Finds the objects that an uploaded changeset writes to in a way that its client may not: all that it does to these
/// is left out, and nothing else (`Spec/FlexibleSync.md`). Queries and rules look at one object alone, so some of them
/// can be looked at without the others: a part of the changeset at a time, in steps between which others commit. The
/// findings about an object are made again only if somebody touches it in between.
final class WriteCheck {
    /// The approximate number of instructions at which a part ends.
    private static let partInstructions = 4_096

    /// The views and the states in which objects are looked at.
    struct Place {
        /// The view before the changeset, and with the role that it has after it.
        let view, later: ClientView
        /// The state before the changeset, and with what the changeset does to the schema.
        let before, withSchema: ObjectGraph
    }

    /// An object of an asymmetric class that the client has created.
    struct Event {
        let className: [UInt8]
        let key: PrimaryKey
        /// As `anabranch inspect` shows objects.
        let json: [UInt8]
    }

    /// The answer that the client is to get when the changeset is applied.
    struct Answer {
        /// The objects that it does not see then, and those that are refused and that it does see; both in order.
        var leaving: [ObjectReference] = []
        var restored: [ObjectReference] = []
        var refused: [ObjectReference] = []
        /// The first of those that are refused.
        var told: [CompensatingWrite.Object] = []
        /// The decisions about the objects that are refused or leave, and the reasons.
        var decisions = ViewDecisions()
    }

    /// The number of objects in a part.
    private let partCount: Int
    private let beginStep: () -> StepLimit
    private var limit: StepLimit?
    /// True if the step was over before all was known.
    private(set) var isOver = false
    /// The time that it has taken in this step.
    private(set) var time = Duration.zero

    /// The role and the version that the verdicts are about.
    private var role: ViewRole?
    private var version: ServerVersion = 0
    /// The objects that others have touched since then.
    private var touched: [ObjectAddress] = []

    /// The objects of the present changeset; nil until they are listed.
    private var objects: ChangesetObjects?
    /// The objects that the merge has left out of it; their positions follow those of `objects`.
    private var lost: [TouchedObject] = []
    private var lostPositions: [ObjectAddress: Int] = [:]
    private var verdicts: [WriteVerdict] = []
    /// The position before which all is known.
    private var firstUnknown = 0
    /// The findings from before the merge changed the changeset.
    private var former: (objects: ChangesetObjects, verdicts: [WriteVerdict])?
    private(set) var events: [Event] = []
    /// The first ones of the asymmetric objects that the client may not create.
    private(set) var refusedEvents: [CompensatingWrite.Object] = []

    /// - Parameters:
    ///   - partCount: how many objects are looked at together.
    ///   - step: begins a step.
    init(ofParts partCount: Int, step beginStep: @escaping () -> StepLimit) {
        (self.partCount, self.beginStep) = (partCount, beginStep)
    }

    // MARK: Steps

    /// Begins a step, at the end of a log in which others may have touched objects since the last one.
    func begin(for role: ViewRole, at head: ServerVersion, touched: TouchedObjects) {
        if self.role?.rules != role.rules { forgetVerdicts() }
        if !verdicts.isEmpty {
            self.touched += touched.touched(after: version).map { object in
                ObjectAddress(touched.className(of: object) ?? [], object.key)
            }
        }
        (self.role, version) = (role, head)
        (limit, isOver, time) = (nil, false, .zero)
    }

    /// Begins with a changeset: the one that was tried in the last step, or the next one.
    /// - Parameter sent: the changeset as it was uploaded.
    func begin(_ changeset: ChangesetIndex, sent: [UInt8], in arena: ChangesetArena) {
        if objects == nil { list(changeset, sent, in: arena) }
        for object in touched {
            let listed = arena.object(ofClass: object.className, key: object.key).flatMap { objects?.position(of: $0) }
            guard let position = listed ?? lostPositions[object] else { continue }
            verdicts[position] = []
            firstUnknown = min(firstUnknown, position)
        }
        touched = []
    }

    private func list(_ changeset: ChangesetIndex, _ sent: [UInt8], in arena: ChangesetArena) {
        let objects = ChangesetObjects(of: changeset, in: arena)
        lost = arena.isDirty(changeset) ? Self.objects(of: sent, butNot: objects, in: arena) : []
        verdicts = (0..<objects.count).map { position in
            former.flatMap { known in known.objects.position(of: objects.id(at: position)).map { known.verdicts[$0] } }
                ?? []
        }
        verdicts += lost.map { _ in [] }
        lostPositions = [:]
        for (number, object) in lost.enumerated() {
            lostPositions[ObjectAddress(object.className, object.key)] = objects.count + number
        }
        (self.objects, former, firstUnknown) = (objects, nil, 0)
    }

    /// The objects of a changeset as it was uploaded that are not listed.
    private static func objects(
        of sent: [UInt8], butNot objects: ChangesetObjects, in arena: ChangesetArena
    ) -> [TouchedObject] {
        var sentArena = ChangesetArena()
        guard let index = try? sentArena.decode(sent, version: 1, tag: OriginTag(timestamp: 0, ident: 0)) else {
            return []
        }
        return sentArena.touchedObjects(of: index).filter { object in
            let id = arena.object(ofClass: object.className, key: object.key)
            return id.flatMap { objects.position(of: $0) } == nil
        }
    }

    /// Records that the merge changes the changeset; the findings about its objects stay.
    func countMerge() {
        if let objects { former = (objects, verdicts) }
        objects = nil
    }

    private func forgetVerdicts() {
        verdicts = verdicts.map { $0.contains(.isAsymmetric) ? $0 : [] }
        (former, firstUnknown) = (nil, 0)
    }

    /// Records that the changeset is integrated.
    func end() {
        (objects, former, lost, lostPositions, verdicts, firstUnknown) = (nil, nil, [], [:], [], 0)
        (events, refusedEvents) = ([], [])
    }

    /// Does some work whose time is counted for the client.
    func measure(_ work: () throws(HistoryError) -> Void) throws(HistoryError) {
        let start = ContinuousClock.now
        defer { time += ContinuousClock.now - start }
        try work()
    }

    // MARK: Before the changeset

    /// True if the changeset does something to the schema.
    var changesSchema: Bool { objects?.changesSchema ?? false }

    /// True if all is known.
    var isKnown: Bool {
        firstUnknown = verdicts[firstUnknown...].firstIndex { !$0.contains(.isKnown) } ?? verdicts.count
        return firstUnknown == verdicts.count
    }

    /// Checks objects as they were before the changeset, and refuses those that the client does not see.
    /// - Returns: the positions of some others, for `look`; nil if the step is over.
    func nextPart(at place: Place, in arena: ChangesetArena) throws(HistoryError) -> [Int]? {
        guard let objects else { return [] }
        let limit = limit ?? beginStep()
        if self.limit != nil, limit.isOver {
            isOver = true
            return nil
        }
        self.limit = limit
        var part: [Int] = [], instructionCount = 0
        try measure { () throws(HistoryError) in
            try place.before.readTogether(verdicts.count - firstUnknown) { () throws(HistoryError) in
                for position in firstUnknown..<verdicts.count where !verdicts[position].contains(.isKnown) {
                    if !verdicts[position].contains(.isPassed) {
                        if position < objects.count {
                            verdicts[position] = try verdict(on: objects.object(at: position, in: arena), at: place)
                        } else {
                            verdicts[position] = try verdict(onLost: lost[position - objects.count], at: place)
                        }
                    }
                    if !verdicts[position].contains(.isKnown) {
                        part.append(position)
                        instructionCount += objects.instructionCount(at: position)
                    }
                    if part.count == partCount || instructionCount >= Self.partInstructions { break }
                    if limit.isOver { break }
                }
            }
        }
        return part
    }

    private func verdict(on object: TouchedObject, at place: Place) throws(HistoryError) -> WriteVerdict {
        if let number = place.withSchema.classID(of: object.className), place.withSchema.isAsymmetric(number) {
            return [.isPassed, .isAsymmetric]
        }
        // A class that the changeset adds has no objects yet.
        guard let number = place.before.classID(of: object.className) else { return .isPassed }
        let reference = ObjectReference(classID: number, key: object.key)
        var reason = WriteVerdict.isMissing
        if let found = try place.before.read(reference, place.view.decides(in: object.className)) {
            if try place.view.includes(found, of: object.className, in: place.before) { return .isPassed }
            reason = try hidden(found, object.className, from: place.view, in: place.before)
        } else if object.isCreated || object.firstKind == .eraseObject {
            // An object that somebody else has erased may be erased again.
            return .isPassed
        }
        return try refusal(of: reference, object.className, at: place).union(.isOutside).union(reason)
    }

    /// The reason why an object is not in a view: its query, or else the role.
    private func hidden(
        _ object: StateObject, _ className: [UInt8], from view: ClientView, in state: ObjectGraph
    ) throws(HistoryError) -> WriteVerdict {
        try view.queries[className].includes(object, in: state) ? .failsRead : []
    }

    /// The verdict on an object that the merge has left out of a changeset. It is refused if the object has left the
    /// view since, by a change of the role for example: the client, which may not have been allowed to write it, has to
    /// learn that. An object that was erased by somebody is not reported.
    private func verdict(onLost object: TouchedObject, at place: Place) throws(HistoryError) -> WriteVerdict {
        guard let number = place.before.classID(of: object.className) else { return .isKnown }
        let reference = ObjectReference(classID: number, key: object.key)
        guard let found = try place.before.read(reference, place.view.decides(in: object.className)),
            try !place.view.includes(found, of: object.className, in: place.before)
        else { return .isKnown }
        let reason = try hidden(found, object.className, from: place.view, in: place.before)
        return try refusal(of: reference, object.className, at: place).union(.isOutside).union(reason)
    }

    private func refusal(
        of object: ObjectReference, _ className: [UInt8], at place: Place
    ) throws(HistoryError) -> WriteVerdict {
        let isSeen = try place.later.includes(object, of: className, in: place.withSchema)
        return isSeen ? [.isKnown, .isRefused] : [.isKnown, .isRefused, .leaves]
    }

    // MARK: After the changeset

    /// Applies what the changeset does to a part of its objects.
    func preview(
        _ part: [Int], of arena: ChangesetArena, with state: inout PendingState, from ident: ClientFileID,
        on base: ServerVersion, past log: PendingLog
    ) throws(HistoryError) {
        guard let objects else { return }
        var previewed = state
        try measure { () throws(HistoryError) in
            try previewed.preview(part, of: objects, in: arena, from: ident, on: base, past: log)
        }
        state = previewed
    }

    /// True if a part is all that the changeset does to objects.
    func isWhole(_ part: [Int]) -> Bool {
        part.count == verdicts.count && !part.contains { verdicts[$0].contains(.isAsymmetric) }
    }

    /// Refuses changes that the rules do not allow, or that create objects which the client would not see.
    /// - Parameter after: the state after the changeset, as far as the part is concerned.
    /// - Returns: whether all was looked at; else the step is over.
    func look(
        at part: [Int], in arena: ChangesetArena, after: ObjectGraph, at place: Place
    ) throws(HistoryError) -> Bool {
        guard let objects else { return true }
        let limit = beginStep()
        try measure { () throws(HistoryError) in
            try after.readTogether(part.count) { () throws(HistoryError) in
                for (number, position) in part.enumerated() {
                    isOver = number > 0 && limit.isOver
                    if isOver { return }
                    let object = objects.object(at: position, in: arena)
                    if verdicts[position].contains(.isAsymmetric) {
                        try take(object, from: after, at: place)
                        verdicts[position].insert(.isKnown)
                    } else {
                        verdicts[position] = try verdict(on: object, after: after, at: place)
                    }
                }
            }
        }
        return !isOver
    }

    private func verdict(
        on object: TouchedObject, after: ObjectGraph, at place: Place
    ) throws(HistoryError) -> WriteVerdict {
        let reference = try after.reference(to: object), (view, later) = (place.view, place.later)
        let permissions = view.role[object.className], laterPermissions = later.role[object.className]
        let hadClass = place.before.classID(of: object.className) != nil, decides = later.decides(in: object.className)
        let old = hadClass ? try place.before.read(reference, permissions.look(at:)) : nil
        let new = try after.read(reference) { decides($0) || laterPermissions.look(at: $0) }
        var failure: WriteVerdict = []
        switch (old, new) {
        case (nil, let new?):
            if try !laterPermissions.insert.includes(new, in: after) { failure = .failsInsert }
        case (let old?, nil):
            if try !permissions.delete.includes(old, in: place.before) { failure = .failsDelete }
        case (let old?, let new?):
            if try !permissions.write.includes(old, in: place.before) {
                failure = .failsWriteBefore
            } else if try !laterPermissions.write.includes(new, in: after) {
                failure = .failsWriteAfter
            }
        case (nil, nil): break
        }
        guard failure.isEmpty else { return try refusal(of: reference, object.className, at: place).union(failure) }
        guard let new, try !later.includes(new, of: object.className, in: after) else { return .isKnown }
        let reason = try hidden(new, object.className, from: later, in: after)
        if old != nil { return [.isKnown, .leaves, reason] }
        return try refusal(of: reference, object.className, at: place).union(.isOutside).union(reason)
    }

    /// Takes in an object of an asymmetric class, if it is created. Changes to others are dropped.
    private func take(_ object: TouchedObject, from after: ObjectGraph, at place: Place) throws(HistoryError) {
        guard object.firstKind == .createObject,
            let found = try after.read(try after.reference(to: object), { _ in true })
        else { return }
        guard try place.later.role[object.className].insert.includes(found, in: after) else {
            if refusedEvents.count < CompensatingWrite.toldSize.objects {
                refusedEvents.append(CompensatingWrite.Object(refusing: object))
            }
            return
        }
        do {
            events.append(
                Event(className: object.className, key: object.key, json: try after.canonicalJSON(of: found)))
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
    }

    // MARK: Results

    /// The objects that the changeset is to lose.
    var dropped: Set<ObjectKeyID> {
        guard let objects else { return [] }
        return Set(
            (0..<objects.count).filter { !verdicts[$0].isDisjoint(with: [.isRefused, .isAsymmetric]) }
                .map { objects.id(at: $0) })
    }

    /// - Parameters:
    ///   - state: the state after the changeset, without what is dropped of it.
    ///   - view: the view of the client.
    ///   - role: its role there.
    func answer(
        in arena: ChangesetArena, _ state: ObjectGraph, to view: ClientView, as role: ViewRole
    ) throws(HistoryError) -> Answer {
        var found: [(reference: ObjectReference, position: Int)] = []
        for position in verdicts.indices where !verdicts[position].isDisjoint(with: [.isRefused, .leaves]) {
            guard let object = object(at: position, in: arena) else { continue }
            found.append((try state.reference(to: object), position))
        }
        found.sort { $0.reference < $1.reference }
        var answer = Answer()
        for (reference, position) in found {
            let verdict = verdicts[position]
            if verdict.contains(.leaves) { answer.leaving.append(reference) } else { answer.restored.append(reference) }
            let object = object(at: position, in: arena), isRefused = verdict.contains(.isRefused)
            if let object {
                answer.decisions.add(object, isRefused: isRefused, verdict.condition, role, view.queries)
            }
            guard isRefused else { continue }
            answer.refused.append(reference)
            if answer.told.count < CompensatingWrite.toldSize.objects, let object {
                answer.told.append(
                    CompensatingWrite.Object(refusing: object, isOutside: verdict.contains(.isOutside)))
            }
        }
        return answer
    }

    private func object(at position: Int, in arena: ChangesetArena) -> TouchedObject? {
        guard let objects else { return nil }
        return position < objects.count ? objects.object(at: position, in: arena) : lost[position - objects.count]
    }
}
