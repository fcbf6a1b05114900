public import AnabranchCore
public import AnabranchHistory

/// Versions of a log that people would call one edit: by one author, on objects that they have in common, one after the
/// other without a long pause (`Spec/Explain.md`, section 7).
public struct Edit: Equatable, Sendable {
    /// An object of an edit.
    public struct Object: Equatable, Sendable {
        /// The class and key of the object.
        public let object: ObjectAddress
        /// True if the edit has created it.
        public fileprivate(set) var isInserted = false
        /// True if it was deleted in the end.
        public let isDeleted: Bool
        /// The names of the fields that were written, in UTF-8, the one that was written last first.
        public fileprivate(set) var fields: [[UInt8]] = []
    }

    /// The first and the last version. Those of others may lie between them.
    public fileprivate(set) var versions: ClosedRange<ServerVersion>
    /// The number of its versions.
    public fileprivate(set) var versionCount = 1
    /// The client file that it came from; 0 for the server.
    public let author: ClientFileID
    /// The times of the first and the last change, by the author's clock.
    public fileprivate(set) var times: ClosedRange<ChangesetTime>
    /// The objects that it has changed, the one that was changed last first.
    public fileprivate(set) var objects: [Object]
    /// True if it adds or erases classes or columns.
    public fileprivate(set) var changesSchema: Bool
    /// Where each object stands in `objects`: there may be as many as instructions in a changeset.
    private var places: [ObjectAddress: Int] = [:]
    /// The names in `fields` of all objects: one object may have as many as there are instructions, too.
    private var names: Set<FieldName> = []

    /// A field of an object.
    private struct FieldName: Hashable {
        /// The object's place in `objects`.
        let object: Int
        let field: [UInt8]
    }

    fileprivate init(_ entry: LogEntry) throws(HistoryError) {
        versions = entry.version...entry.version
        author = entry.origin
        times = entry.timestamp...entry.timestamp
        objects = []
        changesSchema = false
        var arena = ChangesetArena()
        let index = try entry.decode(into: &arena)
        for instruction in arena.instructions(of: index).reversed() {
            guard !instruction.kind.isSchema else {
                changesSchema = true
                continue
            }
            let address = ObjectAddress(of: instruction, in: arena)
            let isField = instruction.kind != .createObject && instruction.kind != .eraseObject
            var object = Object(object: address, isDeleted: instruction.kind == .eraseObject)
            object.isInserted = instruction.kind == .createObject
            object.fields = isField ? [Array(arena.bytes(of: instruction.field))] : []
            include(object)
        }
    }

    /// Adds an earlier edit of the same author.
    fileprivate mutating func include(_ earlier: Edit) {
        versions = earlier.versions.lowerBound...versions.upperBound
        versionCount += earlier.versionCount
        times = min(times.lowerBound, earlier.times.lowerBound)...max(times.upperBound, earlier.times.upperBound)
        for object in earlier.objects { include(object) }
        changesSchema = changesSchema || earlier.changesSchema
    }

    /// Adds what was done to an object before.
    private mutating func include(_ earlier: Object) {
        let place = places[earlier.object] ?? objects.count
        if place == objects.count {
            places[earlier.object] = place
            objects.append(Object(object: earlier.object, isDeleted: earlier.isDeleted))
        }
        objects[place].isInserted = objects[place].isInserted || earlier.isInserted
        for field in earlier.fields where names.insert(FieldName(object: place, field: field)).inserted {
            objects[place].fields.append(field)
        }
    }

    /// True if both are on one of the same objects, or on the schema alone.
    fileprivate func continues(_ earlier: Edit) -> Bool {
        if objects.isEmpty || earlier.objects.isEmpty { return objects.isEmpty && earlier.objects.isEmpty }
        return earlier.objects.contains { places[$0.object] != nil }
    }
}

/// Groups the versions of a log into edits, the newest first. It holds at most `openMax` edits.
public struct EditGroups {
    /// The pause that ends an edit by default, in milliseconds: five minutes.
    public static let pauseMilliseconds: UInt64 = 300_000
    /// The edits that may still become longer. With more of them, the newest ends.
    static let openMax = 128

    private let pauseMilliseconds: UInt64
    /// In the order of their last versions, the newest first; those that have ended wait for newer ones.
    private var edits: [(edit: Edit, hasEnded: Bool)] = []

    /// - Parameter pauseMilliseconds: the time without a change of its author that ends an edit.
    public init(pauseMilliseconds: UInt64 = EditGroups.pauseMilliseconds) {
        self.pauseMilliseconds = pauseMilliseconds
    }

    /// Adds the version before those that were added.
    /// - Returns: the edits to which nothing more can come, the newest first.
    /// - Throws: `storeDamaged` for an entry that cannot be decoded.
    public mutating func add(_ entry: LogEntry) throws(HistoryError) -> [Edit] {
        let new = try Edit(entry)
        guard !new.objects.isEmpty || new.changesSchema else { return [] }
        let time = new.times.lowerBound
        var place: Int?
        for index in edits.indices where edits[index].edit.author == new.author && !edits[index].hasEnded {
            let oldest = edits[index].edit.times.lowerBound
            if max(oldest, time).rawValue - min(oldest, time).rawValue > pauseMilliseconds {
                edits[index].hasEnded = true
            } else if place == nil, edits[index].edit.continues(new) {
                place = index
            }
        }
        if let place { edits[place].edit.include(new) } else { edits.append((new, false)) }
        if edits.count > Self.openMax { edits[0].hasEnded = true }
        let ended = edits.prefix { $0.hasEnded }.map(\.edit)
        edits.removeFirst(ended.count)
        return ended
    }

    /// The rest of the edits, the newest first: there is no earlier version.
    public mutating func finish() -> [Edit] {
        defer { edits = [] }
        return edits.map(\.edit)
    }
}
