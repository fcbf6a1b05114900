import AnabranchCore
import AnabranchHistory
import AnabranchSimperium

/// Keeps the versions of entities, and their changes, with every entry of a file, whoever made it.
struct SimperiumObserver: RecordObserver {
    let app: SimperiumApp
    let settings: DoorSettings
    let unixSeconds: @Sendable () -> UInt64

    func observe(_ step: RecordStep, _ records: inout PendingRecords) throws(HistoryError) {
        // Without it, nobody has opened the file by this wire.
        guard let door = try records.door() else { return }
        try records.readAheadForChanges()
        var recorder = ChangeRecorder(settings, now: unixSeconds(), door: door)
        do {
            if step.entry.version.rawValue == door.position.rawValue &+ 1 {
                try recorder.record(step, of: app, &records)
            } else {
                // It has missed entries.
                let position = SaltedVersion(version: step.entry.version, salt: step.entry.salt)
                try recorder.renew(at: position, step.after, &records)
            }
        } catch let error as HistoryError {
            throw error
        } catch {
            throw HistoryError(.storeFailed, "an entity cannot be read: \(error)")
        }
    }
}

/// Makes the records about the entries of a file.
struct ChangeRecorder {
    private let settings: DoorSettings
    private let now: UInt64
    private var door: DoorRow
    /// The number of the next object of the entry.
    private var ordinal: UInt32 = 0

    init(_ settings: DoorSettings, now: UInt64, door: DoorRow) {
        self.settings = settings
        self.now = now
        self.door = door
    }

    private static let daySeconds: UInt64 = 86_400

    private var requestsExpireAt: UInt64 { now + UInt64(clamping: settings.changeDays) * Self.daySeconds }

    private mutating func nextPlace() -> ChangePlace {
        defer { ordinal += 1 }
        return ChangePlace(version: door.position, ordinal: ordinal)
    }

    // MARK: Entries

    /// Records an entry that follows the last one seen.
    mutating func record(_ step: RecordStep, of app: SimperiumApp, _ records: inout PendingRecords) throws {
        let author = WriteAuthor(step.author)
        let (objects, erasedClasses) = try step.touched()
        let before = door.position
        try records.recordDay(at: now, after: before, settings)
        (door.position, door.logSalt) = (step.entry.version, step.entry.salt)
        records.set(door)
        var noted: [[UInt8]: Set<PrimaryKey>] = [:]
        for object in objects {
            guard let bucket = try bucket(ofClass: object.className, of: app, step, before, &records) else { continue }
            noted[object.className, default: []].insert(object.key)
            try record(object.key, of: bucket, step, author, &records)
        }
        for className in erasedClasses {
            guard let bucket = try records.bucket(ofClass: className), let classID = step.before.classID(of: className)
            else { continue }
            var keys: [PrimaryKey] = []
            try step.before.forEachObject(of: classID) { if let key = $0.key { keys.append(key) } }
            for key in keys where noted[className]?.contains(key) != true {
                try record(key, of: bucket, step, nil, &records)
            }
        }
        for (bucket, key) in try step.changedUnnamed(objects, of: records.buckets()) {
            if noted[bucket.className, default: []].insert(key).inserted {
                try record(key, of: bucket, step, nil, &records)
            }
        }
        for (className, keys) in noted {
            guard let bucket = try records.bucket(ofClass: className) else { continue }
            let erased = try records.eraseOld(of: bucket, added: keys.count, now: now, settings, door)
            door.changeBytes -= min(door.changeBytes, erased)
        }
        let bytesMax = UInt64(clamping: settings.changeBytesMax)
        // Little at a time: each look for the oldest change passes over those that the commit has erased before.
        if door.changeBytes > bytesMax { try records.trim(&door.changeBytes, to: bytesMax - bytesMax / 1_024) }
        records.set(door)
    }

    /// The bucket of a class. A class of which a client has just written the first object may become one.
    private mutating func bucket(
        ofClass className: [UInt8], of app: SimperiumApp, _ step: RecordStep, _ before: ServerVersion,
        _ records: inout PendingRecords
    ) throws -> Bucket? {
        if let bucket = try records.bucket(ofClass: className) { return bucket }
        let name = String(decoding: className, as: UTF8.self)
        guard BucketName.isValid(name), name.utf8.elementsEqual(className), app.settings(of: name)?.form != .typed,
            BucketName.classNames(name).contains(name),
            let form = step.after.schema(ofClass: className).flatMap(BucketForm.init(of:))
        else { return nil }
        return try open(name, form, className, step.before, at: before, &records)
    }

    private mutating func record(
        _ key: PrimaryKey, of bucket: Bucket, _ step: RecordStep, _ author: WriteAuthor?,
        _ records: inout PendingRecords
    ) throws {
        guard let key = EntityKey.text(of: key) else { return }
        let old = try step.before.entity(key, of: bucket), new = try step.after.entity(key, of: bucket)
        let author = author.flatMap { $0.key.hasBytes(of: key) && $0.bucket.hasBytes(of: bucket.name) ? $0 : nil }
        let diff = author?.diff ?? new.map { ObjectDiff(from: old ?? [:], to: $0) }
        if old == nil && new == nil { return }
        if let diff, diff.isEmpty, old != nil { return }
        try add(key, of: bucket, from: old, to: new, diff, author, &records)
    }

    /// Adds a change.
    private mutating func add(
        _ key: String, of bucket: Bucket, from old: EntityBody?, to new: EntityBody?, _ diff: ObjectDiff?,
        _ author: WriteAuthor?, _ records: inout PendingRecords
    ) throws(HistoryError) {
        let former = try records.entity(key, of: bucket)
        if new != nil, old == nil {
            // Either none is left of an earlier life, or it goes on.
            if former == nil {
                try records.eraseVersions(of: key, of: bucket)
            } else {
                try records.keepVersions(of: key, of: bucket, until: 0)
            }
        }
        let place = nextPlace()
        let source = former?.version ?? (old == nil ? 0 : 1), version = source + 1
        let reverse = new == nil ? ObjectDiff(from: [:], to: old ?? [:]) : ObjectDiff(from: new ?? [:], to: old ?? [:])
        let kind: VersionRow.Kind = new == nil ? .deletion : old == nil ? .creation : .change
        let step = VersionRow(kind: kind, place: place, diff: diff ?? ObjectDiff(), reverse: reverse).bytes
        records.setVersion(step, version, key, of: bucket)
        let kept = UInt64(clamping: settings.versionsMax)
        if version > kept { records.eraseVersion(version - kept, key, of: bucket) }
        let text = Change.text(
            client: author?.client ?? Change.otherClient, key: key, diff: new == nil ? nil : diff, to: new,
            from: old == nil ? nil : source, to: version, cv: door.cv(place, of: bucket.name),
            requests: author.map { [$0.request] } ?? [])
        let counted = PendingRecords.counted(text, step: step)
        try records.addChange(text, counted: counted, at: place, of: bucket)
        door.changeBytes += UInt64(counted)
        if let author {
            records.set(.accepted(place), author.request, key, of: bucket, expiresAt: requestsExpireAt)
        }
        let row = EntityRow(version: version, place: place, isDeleted: new == nil)
        move(key, of: bucket, from: former, to: row, &records)
        if new == nil {
            try records.keepVersions(of: key, of: bucket, until: deletedExpireAt)
        }
    }

    private var deletedExpireAt: UInt64 { now + UInt64(clamping: settings.deletedDays) * Self.daySeconds }

    /// Puts an entity in front of the others.
    private func move(
        _ key: String, of bucket: Bucket, from former: EntityRow?, to row: EntityRow, _ records: inout PendingRecords
    ) {
        records.set(row, key, of: bucket, expiresAt: row.isDeleted ? deletedExpireAt : 0)
        if let former, !former.isDeleted {
            let old = RecentRow(place: former.place, key: key, version: former.version, supersededAt: row.place)
            records.set(old, of: bucket, expiresAt: now + 2 * settings.listingSeconds)
        }
        if !row.isDeleted {
            records.set(RecentRow(place: row.place, key: key, version: row.version), of: bucket)
        }
    }

    // MARK: Beginnings

    /// Makes a class a bucket. Objects that it has are entities with version 1, changed last by an entry that has been
    /// seen.
    mutating func open(
        _ name: String, _ form: BucketForm, _ className: [UInt8], _ graph: ObjectGraph, at version: ServerVersion,
        _ records: inout PendingRecords
    ) throws -> Bucket? {
        guard door.bucketCount < settings.bucketsMax else { return nil }
        door.bucketCount += 1
        records.set(door)
        let bucket = Bucket(number: door.bucketCount, name: name, form: form, className: className)
        records.add(bucket)
        var place = ChangePlace(version: version, ordinal: 0)
        for key in try graph.entityKeys(of: bucket) {
            move(key, of: bucket, from: nil, to: EntityRow(version: 1, place: place, isDeleted: false), &records)
            place.ordinal += 1
        }
        return bucket
    }

    /// Begins a new history from the present state, since the changes that led to it are unknown. Every version rises,
    /// so that nothing that a client has is mistaken for the present entity.
    mutating func renew(at position: SaltedVersion, _ graph: ObjectGraph, _ records: inout PendingRecords) throws {
        (door.position, door.logSalt) = (position.version, position.salt)
        door.salt = .random(in: 1 ... .max)
        door.changeBytes = 0
        records.set(door)
        for bucket in try records.buckets() {
            try records.eraseChanges(of: bucket)
            let living = try graph.entityKeys(of: bucket)
            let isLiving = Set(living.map { ExactString($0) })
            var last: String?
            while true {
                let known = try records.entities(of: bucket, after: last, countMax: 1_000)
                guard let end = known.last else { break }
                last = end.key
                for (key, row) in known where !row.isDeleted && !isLiving.contains(ExactString(key)) {
                    let row = EntityRow(version: row.version + 1, place: nextPlace(), isDeleted: true)
                    move(key, of: bucket, from: nil, to: row, &records)
                }
            }
            for key in living {
                let former = try records.entity(key, of: bucket)
                let row = EntityRow(version: (former?.version ?? 0) + 1, place: nextPlace(), isDeleted: false)
                move(key, of: bucket, from: nil, to: row, &records)
            }
        }
    }
}

extension ObjectGraph {
    /// The keys of the entities of a bucket, in their order.
    fileprivate func entityKeys(of bucket: Bucket) throws(ApplyError) -> [String] {
        guard let schema = schema(ofClass: bucket.className) else { return [] }
        var keys: [String] = []
        try forEachObject(of: schema.number) { object throws(ApplyError) in
            guard let key = object.key.flatMap(EntityKey.text) else { return }
            // Some may be too large.
            guard try entity(object, of: schema, bucket.form) != nil else { return }
            keys.append(key)
        }
        return keys
    }

    /// The properties of a class, and of those whose objects are embedded in its own.
    fileprivate func properties(ofClass className: [UInt8]) -> Set<Property> {
        guard let schema = schema(ofClass: className) else { return [] }
        var found: Set<Property> = [], classes = [schema], seen: Set = [schema.number]
        while let next = classes.popLast() {
            found.formUnion(next.properties)
            for property in next.properties where property.isEmbedded {
                guard let target = property.target, seen.insert(target).inserted else { continue }
                classes += [self.schema(of: target)].compactMap { $0 }
            }
        }
        return found
    }
}

extension RecordStep {
    /// The entities of the form `typed` that the entry may change without naming them: their classes get or lose
    /// properties, or objects come or go that they have links to.
    fileprivate func changedUnnamed(
        _ objects: [TouchedObject], of buckets: [Bucket]
    ) throws -> [(bucket: Bucket, key: PrimaryKey)] {
        let typed = buckets.filter { $0.form == .typed }
        guard !typed.isEmpty else { return [] }
        var changed: [(Bucket, PrimaryKey)] = [], buckets: [ClassID: Bucket] = [:]
        for bucket in typed {
            guard let classID = after.classID(of: bucket.className) else { continue }
            buckets[classID] = bucket
            guard changesMembers(ofClass: bucket.className) else { continue }
            try after.forEachObject(of: classID) { object throws(ApplyError) in
                if let key = object.key { changed.append((bucket, key)) }
            }
        }
        var owners: Set<ObjectReference> = []
        for graph in [before, after] {
            let references = objects.compactMap { object in
                graph.classID(of: object.className).map { ObjectReference(classID: $0, key: object.key) }
            }
            owners.formUnion(try graph.owners(of: references, isDangling: true))
        }
        for owner in owners.sorted() {
            if let bucket = buckets[owner.classID] { changed.append((bucket, owner.key)) }
        }
        return changed
    }

    /// True if the entry takes properties away from a class, or gives it some that are not null at first.
    private func changesMembers(ofClass className: [UInt8]) -> Bool {
        guard before.schemaStamp != after.schemaStamp else { return false }
        let old = before.properties(ofClass: className), new = after.properties(ofClass: className)
        return !old.isSubset(of: new)
            || new.subtracting(old).contains { $0.collection != .single || !$0.isNullable }
    }
}
