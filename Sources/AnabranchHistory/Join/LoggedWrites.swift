import AnabranchCore

/// The times at which places of objects were last written, as the log of a synced file tells.
struct LoggedWrites {
    struct PlaceName: Hashable {
        let object: ObjectAddress
        /// The field, and the names on the path from there.
        var path: [[UInt8]]
    }

    private enum Kind {
        case write, sum
    }

    private let objects: Set<ObjectAddress>
    private var times: [Kind: [PlaceName: ChangesetTime]] = [.write: [:], .sum: [:]]
    /// Objects about which older entries tell nothing.
    private var erased: Set<ObjectAddress> = []

    private init(of objects: Set<ObjectAddress>) { self.objects = objects }

    /// Reads the writes of the objects that a changeset is about from the log.
    /// - Parameter made: entries that do not count.
    init(
        on changeset: ChangesetIndex, in arena: ChangesetArena, of file: SyncedFile, without made: Set<ServerVersion>
    ) throws(HistoryError) {
        let keys = arena.conflictKeys(of: changeset).reads, objects = Self.objects(of: [changeset], in: arena)
        let range = VersionRange(after: file.head.baseVersion, through: file.head.version)
        self = try file.read { view throws(HistoryError) in
            var writes = LoggedWrites(of: objects)
            // No entry has that origin.
            for version in try view.versions(writing: keys, in: range, excludingOrigin: .server).reversed()
            where !made.contains(version) {
                if let entry = try view.entry(version) { try writes.record(older: entry) }
            }
            return writes
        }
    }

    /// Reads the writes of the objects that some changesets are about from the archive.
    init(
        archivedOn changesets: [ChangesetIndex], in arena: ChangesetArena, of file: SyncedFile
    ) throws(HistoryError) {
        let objects = Self.objects(of: changesets, in: arena), base = file.head.baseVersion
        self = try file.read { view throws(HistoryError) in
            var writes = LoggedWrites(of: objects)
            try view.forEachArchivedEntry(upTo: base) { entry throws(HistoryError) in try writes.record(older: entry) }
            return writes
        }
    }

    private static func objects(of changesets: [ChangesetIndex], in arena: ChangesetArena) -> Set<ObjectAddress> {
        var objects: Set<ObjectAddress> = []
        for changeset in changesets {
            for instruction in arena.instructions(of: changeset) where !instruction.kind.isSchema {
                objects.insert(ObjectAddress(of: instruction, in: arena))
            }
        }
        return objects
    }

    /// Records an entry that is older than all before.
    private mutating func record(older entry: LogEntry) throws(HistoryError) {
        try entry.forEachInstruction(isReversed: true) { instruction, arena in
            guard !instruction.kind.isSchema else { return }
            let object = ObjectAddress(of: instruction, in: arena)
            guard objects.contains(object), !erased.contains(object) else { return }
            if instruction.kind == .eraseObject { erased.insert(object) }
            guard let kind = Self.kind(of: instruction), !instruction.isDefault,
                let place = Self.place(of: instruction, in: arena), times[kind]?[place] == nil
            else { return }
            times[kind]?[place] = entry.timestamp
        }
    }

    private static func kind(of instruction: Instruction) -> Kind? {
        switch instruction.kind {
        case .update, .clear: .write
        case .addInteger: .sum
        default: nil
        }
    }

    /// The place that an instruction writes; nil for one in a list, whose elements have no names.
    static func place(of instruction: Instruction, in arena: ChangesetArena) -> PlaceName? {
        let steps = arena.path(of: instruction)
        guard !steps.contains(where: \.isIndex) else { return nil }
        let names = [instruction.field] + steps.map(\.name)
        return PlaceName(
            object: ObjectAddress(of: instruction, in: arena), path: names.map { Array(arena.bytes(of: $0)) })
    }

    /// The time at which the place that a change competes for, or one that it is in, was last written; nil if no entry
    /// tells of it. Sums do not compete with each other.
    func time(competingWith instruction: Instruction, in arena: ChangesetArena) -> ChangesetTime? {
        guard let kind = Self.kind(of: instruction), var place = Self.place(of: instruction, in: arena) else {
            return nil
        }
        var latest = kind == .write ? times[.sum]?[place] : nil
        while !place.path.isEmpty {
            if let time = times[.write]?[place] { latest = max(latest ?? time, time) }
            place.path.removeLast()
        }
        return latest
    }
}
