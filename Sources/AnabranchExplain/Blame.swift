public import AnabranchCore
public import AnabranchHistory

/// The writers of the values of an object (`Spec/Explain.md`, section 3).
public struct Blame: Sendable {
    /// A value, or a collection or embedded object that is empty.
    public struct Line: Sendable {
        /// The place: `title`, `tags[0]`, `address.street`, `scores["anna"]`, `labels{}` for a member of a set.
        public let place: String
        /// The value as an export has it (`Spec/Export.md`, section 2), in UTF-8.
        public let value: [UInt8]
        /// The version that wrote it, or created what it stands in; nil if that was before `beginning`.
        public let author: Author?
    }

    /// The object whose values these are.
    public let object: ObjectAddress
    /// The version from which on changes are known; 0 if all are.
    public let beginning: ServerVersion
    /// The version that created the object; nil if that was before `beginning`.
    public let creation: Author?
    /// The values, property by property in the order of the schema.
    public let lines: [Line]
}

extension FileView {
    /// Finds out who wrote each value of an object, from the changes of the object alone.
    ///
    /// - Parameter state: The state at the end of the log.
    /// - Returns: Nil if there is no such object.
    /// - Throws: `storeDamaged`, `storeFailed`.
    public func blame(_ name: ObjectAddress, in state: ObjectGraph) throws(HistoryError) -> Blame? {
        guard let classSchema = state.schema(ofClass: name.className),
            let object = try state.existing(ObjectReference(classID: classSchema.number, key: name.key))
        else { return nil }
        let (start, beginning) = try beginning(of: name, in: state)
        var tree = BlameTree(of: classSchema, in: state, beginningWith: start)
        var keys = [ConflictKeys.object(name), ConflictKeys.erasure(ofClass: name.className)]
        keys += classSchema.properties.map {
            ConflictKeys.erasure(of: ColumnName(className: name.className, field: $0.name))
        }
        try forEachEntry(writing: keys, after: beginning) { entry, index, arena in
            for instruction in arena.instructions(of: index) {
                if instruction.kind == .eraseTable || instruction.kind == .eraseColumn {
                    guard arena.bytes(of: instruction.className).elementsEqual(name.className) else { continue }
                    tree.eraseSchema(instruction, in: arena)
                } else if arena.isAbout(name, instruction) {
                    tree.follow(instruction, of: entry.version, in: arena)
                }
            }
        }
        var lines = BlameLines(of: state, in: self)
        if let root = tree.object { try lines.append(.object(object), root, place: "", inheriting: root.version) }
        return Blame(
            object: name, beginning: beginning, creation: try lines.author(of: tree.object?.version),
            lines: lines.lines)
    }

    /// The object as it was where what is kept of the log begins: in the oldest bootstrap generation after its base, if
    /// it has one; nil if it did not exist, or nothing is known.
    private func beginning(
        of name: ObjectAddress, in state: ObjectGraph
    ) throws(HistoryError) -> (object: StateObject?, version: ServerVersion) {
        let base = try head().baseVersion
        guard base > 0 else { return (nil, 0) }
        guard let generation = try generations().first(where: { $0.version >= base }) else { return (nil, base) }
        var graph = state.withoutObjects
        let keys = [ConflictKeys.object(name)], range = VersionRange(after: 0, through: generation.version)
        let lineage = LineageView(generation, in: self)
        let versions = try lineage.versions(writing: keys, in: range, excludingOrigin: .largest)
        var entries: [LogEntry] = []
        for version in versions { if let entry = try lineage.entry(version) { entries.append(entry) } }
        try graph.replay(entries)
        guard let number = graph.schema(ofClass: name.className)?.number else { return (nil, generation.version) }
        return (
            try graph.existing(ObjectReference(classID: number, key: name.key)), generation.version
        )
    }

    /// Calls `body` with the entries of the log that write one of some conflict keys, in order.
    func forEachEntry(
        writing keys: [UInt64], after base: ServerVersion,
        _ body: (LogEntry, ChangesetIndex, ChangesetArena) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        let range = VersionRange(after: base, through: try head().version)
        guard !range.isEmpty else { return }
        // Entries about one object have most names in common.
        var arena = ChangesetArena()
        for version in try versions(writing: keys, in: range, excludingOrigin: .largest) {
            guard let entry = try entry(version) else { continue }
            if arena.memoryBytes > 1 << 20 { arena = ChangesetArena() }
            let index = try entry.decode(into: &arena)
            try body(entry, index, arena)
        }
    }

    /// The versions of the log in which an object was changed, created or erased, in order.
    ///
    /// - Throws: `storeDamaged`, `storeFailed`.
    public func versions(changing object: ObjectAddress) throws(HistoryError) -> [ServerVersion] {
        var versions: [ServerVersion] = []
        let keys = [ConflictKeys.object(object)]
        try forEachEntry(writing: keys, after: try head().baseVersion) { entry, index, arena in
            if arena.instructions(of: index).contains(where: { arena.isAbout(object, $0) }) {
                versions.append(entry.version)
            }
        }
        return versions
    }
}

extension ChangesetArena {
    /// True if an instruction is about an object.
    fileprivate func isAbout(_ object: ObjectAddress, _ instruction: Instruction) -> Bool {
        guard !instruction.kind.isSchema else { return false }
        let (className, key) = primaryKey(of: instruction.object)
        return key.normalised == object.key && bytes(of: className).elementsEqual(object.className)
    }
}

extension ObjectGraph {
    /// An object; nil if it does not exist.
    func existing(_ object: ObjectReference) throws(HistoryError) -> StateObject? {
        do { return try self.object(object) } catch { throw HistoryError(readingStateFailed: error) }
    }
}

/// The lines of a blame, from the values of the state and the versions of a tree.
private struct BlameLines {
    private let view: any FileView
    private let texts: ValueTexts
    private var authors: [ServerVersion: Author] = [:]
    private(set) var lines: [Blame.Line] = []

    init(of state: ObjectGraph, in view: any FileView) {
        self.view = view
        texts = ValueTexts(of: state)
    }

    mutating func author(of version: ServerVersion?) throws(HistoryError) -> Author? {
        guard let version else { return nil }
        if let known = authors[version] { return known }
        guard let entry = try view.entry(version) else { return nil }
        let author = try Author(of: entry, in: view)
        authors[version] = author
        return author
    }

    /// - Parameters:
    ///   - node: The history of the place; nil if unknown.
    ///   - version: The version of the place's container.
    mutating func append(
        _ value: StateValue, _ node: BlameTree.Node?, place: String, inheriting version: ServerVersion?
    ) throws(HistoryError) {
        let version = node?.version ?? version, first = lines.count
        switch value {
        case .object(let object):
            var nodes: [[UInt8]: BlameTree.Node] = [:]
            if case .named(let known)? = node?.contents { nodes = known }
            for property in texts.properties(of: object) {
                let name = String(decoding: property.name, as: UTF8.self)
                try append(
                    object.value(of: property), nodes[property.name], place: place.isEmpty ? name : "\(place).\(name)",
                    inheriting: version)
            }
        case .list(let list):
            var nodes: [BlameTree.Node] = []
            if case .list(let known)? = node?.contents, known.count == list.count { nodes = known }
            for (index, value) in list.values.enumerated() {
                try append(
                    value, nodes.isEmpty ? nil : nodes[index], place: "\(place)[\(index)]", inheriting: version)
            }
        case .dictionary(let dictionary):
            var nodes: [[UInt8]: BlameTree.Node] = [:]
            if case .named(let known)? = node?.contents { nodes = known }
            for (key, value) in zip(dictionary.keys, dictionary.values) {
                var text: [UInt8] = []
                JSONText.append(text: key, .canonical, to: &text)
                try append(
                    value, nodes[key], place: "\(place)[\(String(decoding: text, as: UTF8.self))]", inheriting: version)
            }
        case .set(let set):
            var members: [[UInt8]: ServerVersion] = [:]
            if case .set(let known)? = node?.contents { members = known }
            for value in set.values {
                let member = texts.payload(of: value).map { Array(setMember: $0) } ?? []
                let author = try author(of: members[member] ?? version)
                lines.append(Blame.Line(place: "\(place){}", value: texts.json(of: value), author: author))
            }
        default: break
        }
        // A value, or something that is empty.
        guard lines.count == first else { return }
        lines.append(Blame.Line(place: place, value: texts.json(of: value), author: try author(of: version)))
    }
}
