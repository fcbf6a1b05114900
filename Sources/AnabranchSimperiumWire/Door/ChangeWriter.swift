import AnabranchCore
import AnabranchHistory
import AnabranchSimperium

/// Decides on a change request, in a write at the head (`Spec/Simperium.md`, section 8).
struct ChangeWriter {
    let request: ChangeRequest
    let bucketName: String
    let bucketSettings: BucketSettings
    let settings: DoorSettings
    let now: UInt64

    /// Carries a request out, or refuses it.
    /// - Returns: the outcome, and the author for the observer.
    /// - Throws: `JSONDiffError` for a refusal that takes back what was written; a failure of the store.
    func perform(
        _ transaction: WriteTransaction, _ records: inout PendingRecords
    ) throws -> (ChangeOutcome, author: [UInt8]) {
        let key = request.key
        try records.readAheadForChanges()
        let found = try findBucket(transaction, &records)
        var body: EntityBody?, entity: EntityRow?
        if let found {
            if request.endsEmptying { rememberNothing(of: EntityKey.ofBucket, found, &records) }
            switch try records.request(request.ident, key, of: found) {
            case .accepted(let place)?:
                var outcome = ChangeOutcome.refused(409, "a change with this ccid was accepted before")
                (outcome.duplicateOf, outcome.leavesCopyBehind) = (place, true)
                return (outcome, [])
            case .changedNothing?:
                let reason = "a change with this ccid has changed nothing before"
                return (.refused(412, reason, leavesCopyBehind: true), [])
            case nil: break
            }
            body = try transaction.state.entity(key, of: found)
            entity = try records.entity(key, of: found)
        }
        let decision: Decision
        do {
            decision = try decide(body, entity, found, records)
        } catch let error as JSONDiffError {
            return (.refused(error), [])
        }
        var author = WriteAuthor(
            client: request.client, request: request.ident, bucket: bucketName, key: key, diff: nil)
        switch decision {
        case .refuse(let outcome): return try refuse(outcome, found, transaction, &records)
        case .delete:
            if let found, let object = try transaction.object(found.className, key) {
                try transaction.delete(object)
            }
            return (.accepted, author.bytes)
        case .write(let new, let operations, var diff, var isMerged):
            guard let bucket = try found ?? makeBucket(transaction, &records) else {
                return (.refused(500, "the bucket has no class, and a user has \(settings.bucketsMax) at most"), [])
            }
            let written = try write(new, over: body, by: operations, of: bucket, in: transaction)
            if !JSONValue.object(written).isSameJSON(as: .object(new)) {
                (diff, isMerged) = (ObjectDiff(from: body ?? [:], to: written), true)
                guard body == nil || !diff.isEmpty else {
                    return try refuse(
                        .refused(412, "the class would keep what it has", leavesCopyBehind: true), bucket,
                        transaction, &records)
                }
            }
            author.diff = diff
            return (ChangeOutcome(leavesCopyBehind: isMerged), author.bytes)
        }
    }

    /// - Parameter bucket: nil if there is none yet; what is to be remembered makes it.
    private func refuse(
        _ outcome: ChangeOutcome, _ bucket: Bucket?, _ transaction: WriteTransaction, _ records: inout PendingRecords
    ) throws -> (ChangeOutcome, author: [UInt8]) {
        if outcome.code == 412, let bucket = try bucket ?? makeBucket(transaction, &records) {
            rememberNothing(of: request.key, bucket, &records)
        }
        return (outcome, [])
    }

    /// Remembers that the request changes nothing when it is repeated.
    private func rememberNothing(of key: String, _ bucket: Bucket, _ records: inout PendingRecords) {
        let expiry = now + UInt64(clamping: settings.changeDays) * 86_400
        records.set(.changedNothing, request.ident, key, of: bucket, expiresAt: expiry)
    }

    private enum Decision {
        case refuse(ChangeOutcome)
        case delete
        /// - Parameters:
        ///   - operations: the change as it was asked for, for the newest version.
        ///   - diff: the same as clients are told it.
        ///   - isMerged: the client knows another outcome.
        case write(EntityBody, by: ObjectDiff, diff: ObjectDiff, isMerged: Bool)
    }

    // MARK: Writing

    /// Makes the entity have other members.
    /// - Returns: those that it has then: a class may hold others than were asked for.
    private func write(
        _ new: EntityBody, over old: EntityBody?, by operations: ObjectDiff, of bucket: Bucket,
        in transaction: WriteTransaction
    ) throws -> EntityBody {
        do {
            if transaction.state.classID(of: bucket.className) == nil {
                // A client of Realm's wire has erased it.
                try bucket.form.addClass(String(decoding: bucket.className, as: UTF8.self), transaction)
            }
            guard let schema = transaction.state.schema(ofClass: bucket.className) else {
                throw JSONDiffError(.malformed, "the class of the bucket is gone")
            }
            let (object, isNew) = try transaction.create(schema.number, .string(Array(request.key.utf8)))
            // One that is too large to be shown is not to be changed either.
            guard isNew == (old == nil) else { throw Self.tooLarge }
            let bytesMax = bucketSettings.entityBytesMax
            var writer = PropertyWriter(transaction, bytesMax: bytesMax)
            switch bucket.form {
            case .flat: try object.writeFlat(new, over: old ?? [:])
            case .deep: try writer.write(new, over: old ?? [:], .mixed, in: try object.dictionary(BucketForm.body))
            case .typed: try writer.write(new, over: old, by: operations, to: object, schema)
            }
            guard bucket.form == .typed else { return new }
            guard let written = try transaction.state.entity(request.key, of: bucket) else { throw Self.tooLarge }
            let bytes = JSONValue.object(written).encoded.utf8.count
            guard bytes <= bytesMax else {
                throw JSONDiffError(.tooLarge, "with its other members it would have \(bytes) bytes, of \(bytesMax)")
            }
            return written
        } catch let error as ApplyError {
            if let refusal = JSONDiffError(error) { throw refusal }
            throw error
        }
    }

    private static let tooLarge = JSONDiffError(
        .tooLarge, "the object is larger, or deeper, than what clients are shown")

    // MARK: The bucket

    /// The bucket, also if until now it was only a class of other clients; nil if nothing has been written to it.
    private func findBucket(
        _ transaction: WriteTransaction, _ records: inout PendingRecords
    ) throws -> Bucket? {
        try records.bucket(named: bucketName)
            ?? records.adoptBucket(named: bucketName, bucketSettings.form, transaction.state, settings, now: now)
    }

    private func makeBucket(_ transaction: WriteTransaction, _ records: inout PendingRecords) throws -> Bucket? {
        let door = try records.openDoor()
        guard bucketSettings.form != .typed, door.bucketCount < settings.bucketsMax else { return nil }
        for name in BucketName.classNames(bucketName) where transaction.state.classID(of: Array(name.utf8)) == nil {
            try bucketSettings.form.addClass(name, transaction)
            var recorder = ChangeRecorder(settings, now: now, door: door)
            return try recorder.open(
                bucketName, bucketSettings.form, Array(name.utf8), transaction.state, at: door.position, &records)
        }
        return nil
    }

    // MARK: Deciding

    private func decide(
        _ body: EntityBody?, _ entity: EntityRow?, _ bucket: Bucket?, _ records: PendingRecords
    ) throws -> Decision {
        switch request.operation {
        case .nothing: return .refuse(.refused(412, "the bucket has no entities"))
        case .delete: return delete(body, entity)
        case .modify(_, let full?): return try write(ObjectDiff(from: body ?? [:], to: full), body)
        case .modify(let diff, nil):
            guard let body, let bucket else { return try create(diff) }
            guard request.source != nil else { return try mergeWithoutVersion(diff, body) }
            return try merge(body, entity, bucket, records) { _ in diff }
        case .set(let members, let replaces):
            func diff(_ base: EntityBody) -> ObjectDiff {
                ObjectDiff(from: base, to: replaces ? members : base.merging(members) { $1 })
            }
            guard let body, let bucket else { return try create(diff([:])) }
            guard request.source != nil else { return try write(diff(body), body) }
            return try merge(body, entity, bucket, records, diff)
        }
    }

    private static let noEntity = "there is no such entity: it was never made, or is deleted"

    private func delete(_ body: EntityBody?, _ entity: EntityRow?) -> Decision {
        if request.owesDeletion {
            return .refuse(ChangeOutcome(code: 412, leavesCopyBehind: body != nil, paysDeletion: true))
        }
        guard body != nil else { return .refuse(.refused(412, Self.noEntity)) }
        if bucketSettings.deletesStrictly, let source = request.source, source != entity?.version ?? 1 {
            let reason = "only the newest version, \(entity?.version ?? 1), can be deleted, and not \(source)"
            return .refuse(.refused(request.isNode ? 412 : 405, reason, leavesCopyBehind: true))
        }
        return .delete
    }

    /// A change of an entity that does not exist.
    private func create(_ diff: ObjectDiff) throws(JSONDiffError) -> Decision {
        guard request.source == nil else {
            // The deletion wins: an edit never brings back what is deleted.
            return .refuse(.refused(request.isNode ? 412 : 404, Self.noEntity, leavesCopyBehind: request.isNode))
        }
        return try write(diff, nil)
    }

    /// A change of an existing entity that does not name the version that it was made against.
    private func mergeWithoutVersion(_ diff: ObjectDiff, _ body: EntityBody) throws -> Decision {
        guard request.isNode || request.mergesWithoutVersion || bucketSettings.mergesWithoutVersion else {
            return .refuse(.refused(405, "the version that was changed is needed"))
        }
        // What is there has come since there was nothing.
        let rebased = try fitting(diff, [:]).rebased(over: ObjectDiff(from: [:], to: body), base: [:])
        return try write(rebased, body, isMerged: true)
    }

    /// A change of an existing entity, merged with the changes since the version that the client had seen.
    /// - Parameter diff: the change of the version that it was made against.
    private func merge(
        _ body: EntityBody, _ entity: EntityRow?, _ bucket: Bucket, _ records: PendingRecords,
        _ diff: (EntityBody) -> ObjectDiff
    ) throws -> Decision {
        let entity = entity ?? EntityRow(version: 1, place: .start, isDeleted: false)
        guard
            let steps = try records.steps(
                of: request.key, in: bucket, after: request.source ?? entity.version, to: entity, body),
            steps.first?.kind != .creation
        else {
            if request.isNode { return try write(diff(body), body, isMerged: true) }
            let source = request.source ?? entity.version
            return .refuse(.refused(405, "version \(source) is not kept: the newest one is \(entity.version)"))
        }
        guard let base = steps.first?.before else { return try write(diff(body), body) }
        var rebased = fitting(diff(base), base), deleted: EntityBody?
        for (index, step) in steps.enumerated() {
            if step.kind == .deletion {
                deleted = step.before
                continue
            }
            let after = index + 1 < steps.count ? steps[index + 1].before : body
            if let before = deleted.take() {
                rebased = try rebased.rebased(over: ObjectDiff(from: before, to: after), base: before)
            } else if bucket.form == .typed {
                // Properties are lists and numbers: others' edits of these go beside ours.
                let names = rebased.members
                let theirs = ObjectDiff(
                    inDetailFrom: step.before.filter { names[$0.key] != nil },
                    to: after.filter { names[$0.key] != nil })
                rebased = try rebased.rebased(over: theirs, base: step.before)
            } else {
                rebased = try rebased.rebased(over: step.diff, base: step.before)
            }
        }
        return try write(rebased, body, isMerged: true)
    }

    /// The operations of a diff that can be carried out: of node's, those that fit.
    private func fitting(_ diff: ObjectDiff, _ body: EntityBody) -> ObjectDiff {
        request.isNode ? diff.fitting(body) : diff
    }

    /// A change of the newest version.
    private func write(
        _ diff: ObjectDiff, _ body: EntityBody?, isMerged: Bool = false
    ) throws(JSONDiffError) -> Decision {
        let members = body ?? [:], fitting = fitting(diff, members)
        let isReduced = isMerged || fitting != diff
        let emitted = try fitting.emitted(on: members)
        // An entity without members can be made, but not be changed into itself.
        guard !emitted.isEmpty || body == nil && diff.isEmpty else {
            return .refuse(.refused(412, "nothing would change", leavesCopyBehind: isReduced))
        }
        let new = try emitted.applied(to: members, bytesMax: bucketSettings.entityBytesMax)
        return .write(new, by: fitting, diff: emitted, isMerged: isReduced)
    }
}

extension JSONDiffError {
    /// The refusal of what a class does not take; nil if the change is not to blame.
    init?(_ error: ApplyError) {
        switch error.code {
        case .objectTooLarge: self.init(.tooLarge, error.reason)
        case .invalid, .rejected, .undefined, .nullErasure: self.init(.malformed, error.reason)
        case .loadsTooMuch, .unavailable: return nil
        }
    }
}

extension WriteTransaction {
    fileprivate func object(_ className: [UInt8], _ key: String) throws(ApplyError) -> DynamicObject? {
        try object(String(decoding: className, as: UTF8.self), key: .string(Array(key.utf8)))
    }
}

extension PendingRecords {
    /// - Throws: an error if nobody has opened the door of the file.
    func openDoor() throws(HistoryError) -> DoorRow {
        guard let door = try door() else { throw HistoryError(.storeFailed, "Simperium's door is not open") }
        return door
    }

    /// Makes a class that is there a bucket, if it has the name and the form of one.
    /// - Parameter wanted: the form of the settings. Only they can say that a class is one of the form `typed`.
    mutating func adoptBucket(
        named name: String, _ wanted: BucketForm, _ graph: ObjectGraph, _ settings: DoorSettings, now: UInt64
    ) throws -> Bucket? {
        guard let (className, form) = graph.bucketClass(name, wanted), try bucket(ofClass: className) == nil else {
            return nil
        }
        let door = try openDoor()
        var recorder = ChangeRecorder(settings, now: now, door: door)
        return try recorder.open(name, form, className, graph, at: door.position, &self)
    }
}
