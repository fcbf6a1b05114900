/// An index of the objects that may hold links to an object: those stored with it, those changed since they were stored
/// (a state without rows is searched as a whole the first time that a transaction asks), and those that the transaction
/// links afterwards. Owners that no longer link to it are detected when they are searched.
struct LinkIndex {
    private typealias Targets = [ObjectReference: LinkOwners]

    /// The owners that the transaction has linked from, by object linked to.
    private var noted: Targets = [:]
    /// The owners that were found in memory, by class linked to.
    private var found: [ClassID: Targets] = [:]

    /// Records a link that is about to be written to a column.
    mutating func record(_ target: ObjectReference, from owner: ObjectReference, slot: Int) {
        noted[target, default: [:]][owner, default: []].insert(slot)
    }

    /// The searches that find all links to an object, one for each linking column in the order in which the columns
    /// became known to the class linked to.
    mutating func searches(
        for target: ObjectReference, in editor: inout GraphEditor
    ) throws(ApplyError) -> [LinkSearch] {
        let schema = editor.schema
        let linkingColumns = schema[target.classID].linkingColumns.filter { schema.column(of: $0) != nil }
        guard !linkingColumns.isEmpty else { return [] }
        if found[target.classID] == nil {
            editor.flush()
            found[target.classID] = Self.owners(of: target.classID, linkingColumns, in: editor.graph)
        }
        var owners = try editor.graph.storedOwners(of: target)
        for more in [found[target.classID]?[target], noted[target]] {
            owners.merge(more ?? [:]) { $0.union($1) }
        }
        guard !owners.isEmpty else { return [] }
        let sorted = owners.keys.sorted()
        return linkingColumns.map { LinkSearch(target: target, column: $0, slots: owners, owners: sorted) }
    }

    private static func owners(
        of target: ClassID, _ linkingColumns: [Schema.LinkingColumn], in graph: ObjectGraph
    ) -> Targets {
        var targets: Targets = [:]
        let linking = Set(linkingColumns.map(\.owner))
        for number in graph.schema.present where graph.schema[number].kind != .embedded {
            guard !graph.schema.embedded(in: number).union([number]).isDisjoint(with: linking) else { continue }
            for entry in graph.objects[Int(number.rawValue) - 1] where !entry.isStored {
                let owner = ObjectReference(classID: number, key: entry.key)
                for (slot, content) in (entry.fields?.contents ?? []).enumerated() {
                    content.forEachUnstoredLink {
                        if $0.classID == target { targets[$0, default: [:]][owner, default: []].insert(slot) }
                    }
                }
            }
        }
        return targets
    }
}

extension ObjectGraph {
    /// The objects that may hold links to some objects, whether these exist or not.
    /// - Parameter isDangling: true for links to those alone that do not exist.
    package func owners(
        of targets: some Sequence<ObjectReference>, isDangling: Bool = false
    ) throws(ApplyError) -> Set<ObjectReference> {
        var editor = GraphEditor(self), links = LinkIndex(), owners: Set<ObjectReference> = []
        for target in targets where schema.contains(target.classID) {
            guard !schema[target.classID].linkingColumns.isEmpty else { continue }
            if isDangling {
                guard try !contains(target), try editor.isTombstone(target) else { continue }
            }
            owners.formUnion(try links.searches(for: target, in: &editor).first?.owners ?? [])
        }
        return owners
    }
}

/// Finds the links to one object that stand in one column.
struct LinkSearch {
    let target: ObjectReference
    let column: Schema.LinkingColumn
    /// The slots in which each owner may hold such links.
    let slots: LinkOwners
    /// The objects that may hold such links.
    let owners: [ObjectReference]

    struct Found {
        enum Kind {
            /// A field or the value of a dictionary entry.
            case value
            /// An element of a list of `count` elements.
            case element(count: Int)
            /// An element of the set at the location.
            case setElement
        }

        var location: Location
        var kind: Kind
    }

    /// The first places of an owner that hold the link.
    func places(of owner: ObjectReference, limit: Int = .max, in editor: GraphEditor) throws(ApplyError) -> [Found] {
        guard let fields = try editor.fields(of: owner) else { return [] }
        var found: [Found] = []
        try collect(in: fields, of: owner.classID, owner, nil, limit, editor, &found)
        return found
    }

    /// Searches an object for the column; `location` is that of an embedded object, nil for a top-level one.
    private func collect(
        in fields: Fields, of classID: ClassID, _ owner: ObjectReference, _ location: Location?, _ limit: Int,
        _ editor: GraphEditor, _ found: inout [Found]
    ) throws(ApplyError) {
        for case let candidate? in editor.schema[classID].columns where found.count < limit {
            let place = candidate.place
            guard location != nil || slots[owner]?.contains(place.slot) ?? false else { continue }
            let isSought = classID == column.owner && place.slot == column.slot
            guard isSought || place.isEmbedded, place.slot < fields.contents.count else { continue }
            let inner = location?.appending(place, named: candidate.name) ?? Location(owner, place)
            try collect(at: inner, fields.contents[place.slot], limit, editor, &found)
        }
    }

    /// Searches the content of a place. Recurses as deep as paths are long.
    private func collect(
        at location: Location, _ content: Content, _ limit: Int, _ editor: GraphEditor, _ found: inout [Found]
    ) throws(ApplyError) {
        switch content {
        case .link(let object) where object == target: found.append(Found(location: location, kind: .value))
        case .list(let list):
            var index = 0
            try list.forEachWhile { element throws(ApplyError) in
                let place = location.appending(.index(index))
                index += 1
                if case .link(let object) = element.content {
                    if object == target { found.append(Found(location: place, kind: .element(count: list.count))) }
                } else {
                    try collect(at: place, element.content, limit, editor, &found)
                }
                return found.count < limit
            }
        case .dictionary(let entries):
            try entries.forEachWhile { entry throws(ApplyError) in
                try collect(at: location.appending(.name(entry.key)), entry.content, limit, editor, &found)
                return found.count < limit
            }
        case .set(let elements):
            if try elements.find(.link(target)).element != nil {
                found.append(Found(location: location, kind: .setElement))
            }
        case .object(let fields):
            let inner = location.place.target
            try collect(in: fields, of: inner, location.object, location, limit, editor, &found)
        default: break
        }
    }
}

extension Schema {
    /// The linking column; nil if it was erased.
    func column(of linking: LinkingColumn) -> Column? {
        contains(linking.owner) && self[linking.owner].hasColumn(linking.slot)
            ? self[linking.owner].columns[linking.slot] : nil
    }

    /// The embedded classes whose objects can stand in objects of a class, at any depth.
    func embedded(in classID: ClassID) -> Set<ClassID> {
        var found: Set<ClassID> = []
        var waiting = [classID]
        while let next = waiting.popLast() {
            for case let place? in self[next].columns.map({ $0?.place }) where place.isEmbedded {
                if found.insert(place.target).inserted { waiting.append(place.target) }
            }
        }
        return found
    }
}

extension Content {
    /// Calls `body` with each link in the content. Recurses as deep as paths are long.
    func forEachLink(_ body: (ObjectReference) -> Void) throws(ApplyError) {
        switch self {
        case .link(let object): body(object)
        case .list(let list): try list.forEachLink(body)
        case .dictionary(let entries): try entries.forEachLink(body)
        case .set(let elements): try elements.forEachLink(body)
        case .object(let fields): for content in fields.contents { try content.forEachLink(body) }
        default: break
        }
    }

    /// The same, except for links in leaves unchanged since they were stored, which the rows record. Recurses as deep
    /// as paths are long.
    fileprivate func forEachUnstoredLink(_ body: (ObjectReference) -> Void) {
        switch self {
        case .link(let object): body(object)
        case .list(let list): list.forEachUnstored { $0.content.forEachUnstoredLink(body) }
        case .dictionary(let entries): entries.forEachUnstored { $0.content.forEachUnstoredLink(body) }
        case .set(let elements): elements.forEachUnstored { $0.content.forEachUnstoredLink(body) }
        case .object(let fields): for content in fields.contents { content.forEachUnstoredLink(body) }
        default: break
        }
    }
}

extension CountedTree where Element: ContentElement {
    fileprivate func forEachLink(_ body: (ObjectReference) -> Void) throws(ApplyError) {
        try forEach { element throws(ApplyError) in try element.content.forEachLink(body) }
    }
}
