// From a field along a path to a place, and what Update and AddInteger do there (`Spec/State.md`, B1, B2, B5, B6).

extension GraphEditor {
    /// Longer paths are refused: a collection nested that deep is hostile, and each level costs stack.
    static let pathCountMax = 512

    /// Carries out an edit below a field of a top-level or embedded object.
    mutating func edit(
        _ fields: inout Fields, at place: Place, _ path: ArraySlice<PathStep>, _ edit: Edit
    ) throws(ApplyError) -> Effect {
        guard fields.contents.count <= place.slot else {
            return try self.edit(&fields.contents[place.slot], at: place, path, edit)
        }
        // An edit that fails or is ignored writes out no initial values.
        var content = content(place, of: fields)
        let effect = try self.edit(&content, at: place, path, edit)
        guard effect == .applied else { return effect }
        fill(&fields, of: place.owner)
        fields.contents[place.slot] = content
        return effect
    }

    /// Writes out the initial values of all columns that were added since the object was written last.
    private mutating func fill(_ fields: inout Fields, of classID: ClassID) {
        let columns = schema[classID].columns, count = fields.contents.count
        fields.contents.reserveCapacity(columns.count)
        for column in columns[count...] { fields.contents.append(column?.initial ?? .null) }
        let bytes = fields.contents[count...].reduce(0) { $0 + $1.size }
        grow(by: bytes)
        countUnwritten(bytes)
    }

    /// Walks one step, or acts where the path ends. Recurses as deep as the path is long.
    private mutating func edit(
        _ content: inout Content, at place: Place, _ path: ArraySlice<PathStep>, _ edit: Edit
    ) throws(ApplyError) -> Effect {
        guard let step = path.first else { return try act(on: &content, at: place, edit) }
        let rest = path.dropFirst()
        switch step {
        case .index(let index):
            guard var list = content.takeList() else { break }
            defer { content = .list(list) }
            if rest.isEmpty { return try act(on: &list, index: index, at: place.element, edit) }
            guard index < list.count else { throw .invalid("index \(index) of a list of \(list.count)") }
            return try list.modify(at: index) { element throws(ApplyError) in
                try self.edit(&element.content, at: place.element, rest, edit)
            }
        case .name(let name):
            if var fields = content.takeObject() {
                defer { content = .object(fields) }
                guard let inner = schema[place.target].place(of: name) else {
                    throw .invalid("no such field in an embedded object")
                }
                return try self.edit(&fields, at: inner, rest, edit)
            }
            guard var entries = content.takeDictionary() else { break }
            defer { content = .dictionary(entries) }
            if rest.isEmpty { return try act(on: &entries, key: name, at: place.element, edit) }
            let found = try entries.find(name)
            guard found.element != nil else { throw .invalid("no such dictionary key") }
            return try entries.modify(at: found.index) { entry throws(ApplyError) in
                try self.edit(&entry.content, at: place.element, rest, edit)
            }
        }
        throw .invalid("the path does not fit what is there")
    }

    // MARK: Values (B2)

    /// The content that a payload stores if it is a value; nil for ObjectValue, Dictionary, List, Set and Erased.
    func value(_ payload: Payload) throws(ApplyError) -> Content? {
        switch payload {
        case .null: return .null
        case .int(let value): return .int(value)
        case .bool(let value): return .bool(value)
        case .string(let text):
            guard text.count <= 16_777_199 else { throw .rejected("a string of \(text.count) bytes") }
            return .string(text)
        case .binary(let bytes):
            guard bytes.count <= 16_777_200 else { throw .rejected("a binary of \(bytes.count) bytes") }
            return .binary(bytes)
        case .timestamp(let value): return .timestamp(value)
        case .float(let value): return .float(value)
        case .double(let value): return .double(value)
        case .decimal(let value): return value == .nullMarker ? .null : .decimal(value)
        case .objectID(let value): return .objectID(value)
        case .uuid(let value): return .uuid(value)
        case .link(let className, let key): return .link(try target(className, key))
        case .objectValue, .dictionary, .list, .set, .erased: return nil
        }
    }

    /// The object that a link names; it need not exist.
    private func target(_ className: [UInt8], _ key: PrimaryKey) throws(ApplyError) -> ObjectReference {
        guard let number = schema.number(of: className) else { throw .invalid("the class linked to does not exist") }
        let traits = graph.schema.traits(of: number), kind = traits.kind
        guard kind != .embedded else { throw .invalid("a link to an embedded class") }
        let key = key.normalised
        guard traits.accepts(key) else { throw .invalid("the key of a link does not fit its class") }
        guard kind != .topLevelAsymmetric else { throw .rejected("a link to an asymmetric class") }
        try checkLength(of: key)
        return ObjectReference(classID: number, key: key)
    }

    /// True if the place can hold the value.
    func fits(_ value: Content, _ place: Place) -> Bool {
        switch value {
        case .null: return place.isNullable
        case .link(let object): return place.isMixed || place.type == .link && object.classID == place.target
        default: return place.isMixed || place.type == value.scalarType
        }
    }

    /// Records a link with the class linked to: a Mixed of another class that has ever held one protects this class for
    /// good, and any Mixed becomes one of its linking columns (B3, C3). A dangling link leaves a tombstone (A6).
    mutating func recordLink(_ value: Content, at place: Place) throws(ApplyError) {
        guard case .link(let object) = value else { return }
        try recordLink(to: object)
        guard place.isMixed else { return }
        let linking = Schema.LinkingColumn(owner: place.owner, slot: place.slot)
        guard !schema[object.classID].isLinked(from: linking) else { return }
        graph.schema[object.classID].add(linking)
        if place.owner != object.classID { graph.schema[object.classID].mixedLinkers.insert(place.owner) }
        changes.isSchemaChanged = true
    }

    /// Writes a value over another one; if both are equal numbers of one kind, the old representation stays (B5).
    mutating func store(_ value: Content, over content: inout Content, at place: Place) throws(ApplyError) {
        if isBelowList, try !overwrites(content, with: value, at: place) { return }
        try recordLink(value, at: place)
        if !content.isEqualNumber(to: value) { try set(&content, to: value) }
    }

    /// True if a released client writes the value over the other one in a list of Mixed, or below one.
    /// - Throws: if the client would crash.
    private mutating func overwrites(
        _ content: Content, with value: Content, at place: Place
    ) throws(ApplyError) -> Bool {
        guard place.isMixed, case .link(let object) = content, try !exists(object) else { return true }
        switch value {
        case .null: return false
        case .link: throw .undefined("a link over a dangling one in a list of Mixed")
        default: return true
        }
    }

    // MARK: A single field, or a whole collection column

    private mutating func act(
        on content: inout Content, at place: Place, _ edit: Edit
    ) throws(ApplyError) -> Effect {
        guard place.collection == .single else { return try act(onCollection: &content, at: place, edit) }
        switch edit {
        case .update(let payload): return try update(&content, at: place, payload)
        case .addInteger(let amount): return try add(amount, to: &content, at: place)
        case .clear(let kind):
            guard place.isMixed else { throw .invalid("Clear of a field that holds no collection") }
            return try clear(&content, kind)
        case .setInsert, .setErase:
            throw place.isMixed ? .rejected("a Mixed holds no set") : .undefined("the field is not a set")
        case .insert, .move, .erase: throw .invalid("the path does not end in a list index")
        }
    }

    private mutating func update(
        _ content: inout Content, at place: Place, _ payload: Payload
    ) throws(ApplyError) -> Effect {
        if let value = try value(payload) {
            guard fits(value, place) else { throw .invalid("\(payload.type) does not fit the field") }
            // Only a single Decimal takes a new representation of its number.
            if place.type == .decimal {
                try set(&content, to: value)
            } else {
                try store(value, over: &content, at: place)
            }
            return .applied
        }
        switch payload {
        case .dictionary, .list:
            guard place.isMixed else { throw .rejected("the field cannot hold a collection") }
            return try makeCollection(payload, in: &content)
        case .objectValue:
            guard try readsAsNull(content, at: place) else { return .ignored }
            guard place.isEmbedded else { throw .rejected("the field holds no embedded object") }
            try set(&content, to: .object(Fields()))
            return .applied
        case .set: throw .rejected("a set cannot be nested")
        default: throw .invalid("only a dictionary entry can be erased")
        }
    }

    /// True for content that ObjectValue and AddInteger treat as null: null itself, and a dangling link that is not in
    /// a Mixed.
    private mutating func readsAsNull(_ content: Content, at place: Place) throws(ApplyError) -> Bool {
        switch content {
        case .null: return true
        case .link(let object): return place.isMixed ? false : try !exists(object)
        default: return false
        }
    }

    /// Makes a place of a Mixed an empty collection, unless it already holds a collection of this kind.
    mutating func makeCollection(_ payload: Payload, in content: inout Content) throws(ApplyError) -> Effect {
        switch (payload, content) {
        case (.list, .list), (.dictionary, .dictionary): return .ignored
        case (.list, _): try set(&content, to: .list(ContentList()))
        default: try set(&content, to: .dictionary(ContentDictionary()))
        }
        return .applied
    }

    private mutating func add(_ amount: Int64, to content: inout Content, at place: Place) throws(ApplyError) -> Effect
    {
        if try readsAsNull(content, at: place) { return .ignored }
        guard case .int(let value) = content else { throw .invalid("AddInteger where there is no Int") }
        content = .int(value &+ amount)
        return .applied
    }
}

extension Content {
    /// The type of a value that is neither null nor a link; nil for everything else.
    var scalarType: PayloadType? {
        switch self {
        case .int: .int
        case .bool: .bool
        case .string: .string
        case .binary: .binary
        case .timestamp: .timestamp
        case .float: .float
        case .double: .double
        case .decimal: .decimal
        case .objectID: .objectID
        case .uuid: .uuid
        case .stored(let value): value.isText ? .string : .binary
        case .null, .link, .object, .list, .dictionary, .set: nil
        }
    }
}
