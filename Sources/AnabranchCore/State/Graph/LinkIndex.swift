/// Which objects may hold links to an object: found by one walk over the classes that link to its class, the first time
/// that a transaction asks, and kept up to date with what the transaction links afterwards.
struct LinkIndex {
    /// By class linked to, then by object linked to. Owners that no longer link are found out when they are searched.
    private var owners: [ClassID: [ObjectReference: Set<ObjectReference>]] = [:]

    /// Notes a link that is about to be written.
    mutating func note(_ target: ObjectReference, from owner: ObjectReference) {
        owners[target.classID]?[target, default: []].insert(owner)
    }

    /// The searches that find all links to an object, one for each linking column in the order in which the columns
    /// became known to the class linked to.
    mutating func searches(
        for target: ObjectReference, in editor: inout GraphEditor
    ) throws(ApplyError) -> [LinkSearch] {
        let schema = editor.schema
        let linkingColumns = schema[target.classID].linkingColumns.filter { schema.column(of: $0) != nil }
        guard !linkingColumns.isEmpty else { return [] }
        if owners[target.classID] == nil {
            editor.flush()
            owners[target.classID] = try Self.owners(of: target.classID, linkingColumns, in: editor.graph)
        }
        let linking = (owners[target.classID]?[target] ?? []).sorted()
        return linking.isEmpty ? [] : linkingColumns.map { LinkSearch(target: target, column: $0, owners: linking) }
    }

    private static func owners(
        of target: ClassID, _ linkingColumns: [Schema.LinkingColumn], in graph: ObjectGraph
    ) throws(ApplyError) -> [ObjectReference: Set<ObjectReference>] {
        var owners: [ObjectReference: Set<ObjectReference>] = [:]
        let linking = Set(linkingColumns.map(\.owner))
        for number in graph.schema.present where graph.schema[number].kind != .embedded {
            guard !graph.schema.embedded(in: number).union([number]).isDisjoint(with: linking) else { continue }
            try graph.forEachObject(of: number) { key, fields throws(ApplyError) in
                let owner = ObjectReference(classID: number, key: key)
                fields.forEachLink(to: target) { owners[$0, default: []].insert(owner) }
            }
        }
        return owners
    }
}

/// Finds the links to one object that stand in one column.
struct LinkSearch {
    let target: ObjectReference
    let column: Schema.LinkingColumn
    /// The objects that may hold such links.
    let owners: [ObjectReference]

    init(target: ObjectReference, column: Schema.LinkingColumn, owners: [ObjectReference]) {
        self.target = target
        self.column = column
        self.owners = owners
    }

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
        collect(in: fields, of: owner.classID, owner, nil, limit, editor, &found)
        return found
    }

    /// Looks through an object for the column; an embedded object stands at `location`.
    private func collect(
        in fields: Fields, of classID: ClassID, _ owner: ObjectReference, _ location: Location?, _ limit: Int,
        _ editor: GraphEditor, _ found: inout [Found]
    ) {
        for case let candidate? in editor.schema[classID].columns where found.count < limit {
            let place = candidate.place
            let isSought = classID == column.owner && place.slot == column.slot
            guard isSought || place.isEmbedded, place.slot < fields.contents.count else { continue }
            let inner = location?.appending(place, named: candidate.name) ?? Location(owner, place)
            collect(at: inner, fields.contents[place.slot], limit, editor, &found)
        }
    }

    /// Looks through what stands at a place. As deep as paths are long.
    private func collect(
        at location: Location, _ content: Content, _ limit: Int, _ editor: GraphEditor, _ found: inout [Found]
    ) {
        switch content {
        case .link(let object) where object == target: found.append(Found(location: location, kind: .value))
        case .list(let list):
            for (index, element) in list.enumerated() where found.count < limit {
                if case .link(let object) = element.content {
                    guard object == target else { continue }
                    found.append(Found(location: location.appending(.index(index)), kind: .element(count: list.count)))
                } else {
                    collect(at: location.appending(.index(index)), element.content, limit, editor, &found)
                }
            }
        case .dictionary(let entries):
            for entry in entries where found.count < limit {
                collect(at: location.appending(.name(entry.key)), entry.content, limit, editor, &found)
            }
        case .set(let elements):
            if elements.find(.link(target)).element != nil {
                found.append(Found(location: location, kind: .setElement))
            }
        case .object(let fields):
            let inner = location.place.target
            collect(in: fields, of: inner, location.object, location, limit, editor, &found)
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
    /// Calls `body` with each link in here. As deep as paths are long.
    func forEachLink(_ body: (ObjectReference) -> Void) {
        switch self {
        case .link(let object): body(object)
        case .list(let list): for element in list { element.content.forEachLink(body) }
        case .dictionary(let entries): for entry in entries { entry.content.forEachLink(body) }
        case .set(let elements): for element in elements { element.content.forEachLink(body) }
        case .object(let fields): for content in fields.contents { content.forEachLink(body) }
        default: break
        }
    }
}

extension Fields {
    /// Calls `body` with each link to an object of a class.
    fileprivate func forEachLink(to target: ClassID, _ body: (ObjectReference) -> Void) {
        for content in contents { content.forEachLink { if $0.classID == target { body($0) } } }
    }
}
