import AnabranchCore

/// The times at which the fields of a synced file's objects were last written, as far as its log and its archive tell.
struct FieldTimes: Sendable {
    private var times: [ObjectAddress: [[UInt8]: ChangesetTime]] = [:]
    /// Objects about which older entries tell nothing.
    private var erased: Set<ObjectAddress> = []

    init(of file: SyncedFile) throws(HistoryError) {
        self = try file.read { view throws(HistoryError) in
            var times = FieldTimes()
            var replay = LogReplay(VersionRange(after: file.head.baseVersion, through: file.head.version))
            while !replay.isDone {
                for entry in try replay.next(from: view) { try times.record(entry) }
            }
            try view.forEachArchivedEntry(upTo: file.head.baseVersion) { entry throws(HistoryError) in
                try times.record(older: entry)
            }
            return times
        }
    }

    private init() {}

    private mutating func record(_ entry: LogEntry) throws(HistoryError) {
        try entry.forEachInstruction { instruction, arena in
            guard !instruction.kind.isSchema else { return }
            let object = ObjectAddress(of: instruction, in: arena)
            if instruction.kind == .eraseObject {
                times[object] = nil
                erased.insert(object)
            } else if instruction.kind.hasPath, !instruction.isDefault {
                times[object, default: [:]][Array(arena.bytes(of: instruction.field))] = entry.timestamp
            }
        }
    }

    /// Records an entry that is older than all before.
    private mutating func record(older entry: LogEntry) throws(HistoryError) {
        try entry.forEachInstruction(isReversed: true) { instruction, arena in
            guard !instruction.kind.isSchema else { return }
            let object = ObjectAddress(of: instruction, in: arena), field = Array(arena.bytes(of: instruction.field))
            if instruction.kind == .eraseObject {
                erased.insert(object)
            } else if instruction.kind.hasPath, !instruction.isDefault, !erased.contains(object),
                times[object]?[field] == nil
            {
                times[object, default: [:]][field] = entry.timestamp
            }
        }
    }

    /// The time at which a field was last written; nil if nobody has written it, or no entry tells of it any more.
    func time(of field: String, of object: ObjectAddress) -> ChangesetTime? { times[object]?[Array(field.utf8)] }
}

/// The versions at which a synced file has last lost something for good, whatever is merged with them. A change that is
/// made on such a version stays; later writes are merged with it as usual.
struct Removals: Sendable {
    private var objects: [ObjectAddress: ServerVersion] = [:]
    private var fields: [ObjectAddress: [[UInt8]: ServerVersion]] = [:]
    /// The version at which a class or a column was last removed.
    private(set) var ofSchema: ServerVersion = 0

    /// Reads the removals from the entries that uploads of a new client are merged with.
    init(of file: SyncedFile) throws(HistoryError) {
        self = try file.read { view throws(HistoryError) in
            var start: ServerVersion = 0
            if case .generation(let version) = try view.chosenLineage() { start = version }
            var removals = Removals()
            var replay = LogReplay(VersionRange(after: start, through: file.head.version))
            while !replay.isDone {
                for entry in try replay.next(from: view) { try removals.record(entry) }
            }
            return removals
        }
    }

    private init() {}

    private mutating func record(_ entry: LogEntry) throws(HistoryError) {
        try entry.forEachInstruction { instruction, arena in
            switch instruction.kind {
            case .eraseTable, .eraseColumn: ofSchema = entry.version
            case .eraseObject: objects[ObjectAddress(of: instruction, in: arena)] = entry.version
            case .clear:
                let object = ObjectAddress(of: instruction, in: arena)
                fields[object, default: [:]][Array(arena.bytes(of: instruction.field))] = entry.version
            default: break
            }
        }
    }

    /// True if the object was erased.
    func has(_ object: ObjectAddress) -> Bool { objects[object] != nil }

    /// The version on which the object has to be made.
    func base(of object: ObjectAddress) -> ServerVersion { max(ofSchema, objects[object] ?? 0) }

    /// The version on which the field has to be written.
    func base(of field: String, of object: ObjectAddress) -> ServerVersion {
        max(base(of: object), fields[object]?[Array(field.utf8)] ?? 0)
    }
}

extension FileView {
    /// Reads the archive from a version back to its beginning.
    func forEachArchivedEntry(
        upTo version: ServerVersion, _ body: (LogEntry) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        var last = version
        while last > 0 {
            let entries = try archivedEntries(upTo: last)
            guard let first = entries.first else { return }
            for entry in entries.reversed() { try body(entry) }
            last = first.version - 1
        }
    }
}

extension LogEntry {
    func forEachInstruction(
        isReversed: Bool = false, _ body: (Instruction, ChangesetArena) -> Void
    ) throws(HistoryError) {
        guard !changeset.isEmpty else { return }
        var arena = ChangesetArena()
        let changeset = try decode(into: &arena), instructions = arena.instructions(of: changeset)
        for instruction in isReversed ? instructions.reversed() : instructions { body(instruction, arena) }
    }
}
