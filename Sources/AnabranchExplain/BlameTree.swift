import AnabranchCore
import AnabranchHistory

/// The versions in which the contents of one object were written, kept up while its changes are followed in the order
/// of the log (`Spec/Explain.md`, section 3). It knows who wrote what, and where; the values are those of the state.
struct BlameTree {
    /// A place of the object.
    struct Node {
        /// The version that wrote what stands here; nil if that was before the log begins.
        var version: ServerVersion?
        var contents = Contents.value
    }

    indirect enum Contents {
        case value
        case list([Node])
        /// The entries of a dictionary, or the fields of an embedded object.
        case named([[UInt8]: Node])
        /// The members of a set, by their JSON.
        case set([[UInt8]: ServerVersion])
    }

    private let classes: [ClassID: ClassSchema]
    private let classSchema: ClassSchema
    /// Its version is the one that created the object; nil while there is none.
    private(set) var object: Node?

    /// - Parameters:
    ///   - schema: Has the classes; one with a name or number that it lacks has no fields.
    ///   - object: The object before the changes that follow.
    init(of classSchema: ClassSchema, in schema: ObjectGraph, beginningWith object: StateObject?) {
        self.classSchema = classSchema
        classes = Dictionary(schema.classes.map { ($0.number, $0) }, uniquingKeysWith: { $1 })
        self.object = object.map { Node(shapeOf: .object($0), classes) }
    }

    /// Follows an instruction on the object; anything that the state would pass over changes nothing.
    mutating func follow(_ instruction: Instruction, of version: ServerVersion, in arena: ChangesetArena) {
        switch instruction.kind {
        case .createObject: if object == nil { object = Node(version: version, contents: .named([:])) }
        case .eraseObject: object = nil
        case _ where instruction.kind.hasPath:
            let path = arena.path(of: instruction), field = Array(arena.bytes(of: instruction.field))
            let isAlwaysNew = replacesEmbeddedObject(field, path, in: arena)
            object?.change(field) { node in
                node.change(path[...], by: instruction, of: version, isAlwaysNew: isAlwaysNew, in: arena)
            }
        default: break
        }
    }

    /// Forgets the object with its class, or what stood in a column that was erased.
    mutating func eraseSchema(_ instruction: Instruction, in arena: ChangesetArena) {
        guard instruction.kind == .eraseColumn else { return object = nil }
        object?.change(Array(arena.bytes(of: instruction.field))) { $0 = Node(version: nil) }
    }

    /// True for an entry of a dictionary of embedded objects, which a new object replaces; everywhere else the object
    /// that is there stays (`Spec/State.md`, B5).
    private func replacesEmbeddedObject(_ field: [UInt8], _ path: [PathElement], in arena: ChangesetArena) -> Bool {
        guard var property = classSchema.property(named: field) else { return false }
        var isInCollection = property.collection != .single
        for (position, element) in path.enumerated() {
            let isLast = position == path.count - 1
            if isInCollection {
                if isLast { return property.collection == .dictionary && property.isEmbedded }
                isInCollection = false
            } else {
                guard property.isEmbedded, !element.isIndex, let target = property.target,
                    let next = classes[target]?.property(named: Array(arena.bytes(of: element.name)))
                else { return false }
                property = next
                isInCollection = property.collection != .single
            }
        }
        return false
    }
}

extension BlameTree.Node {
    /// The shape of a value that was there before anything is known.
    init(shapeOf value: StateValue, _ classes: [ClassID: ClassSchema]) {
        switch value {
        case .object(let object):
            var fields: [[UInt8]: BlameTree.Node] = [:]
            for property in classes[object.classID]?.properties ?? [] {
                fields[property.name] = Self(shapeOf: object.value(of: property), classes)
            }
            contents = .named(fields)
        case .list(let list): contents = .list(list.values.map { Self(shapeOf: $0, classes) })
        case .dictionary(let dictionary):
            let nodes = dictionary.values.map { Self(shapeOf: $0, classes) }
            contents = .named(Dictionary(zip(dictionary.keys, nodes), uniquingKeysWith: { $1 }))
        default: break
        }
    }

    fileprivate mutating func change(_ name: [UInt8], _ body: (inout Self) -> Void) {
        guard case .named(var nodes) = take() else { return }
        body(&nodes[name, default: Self()])
        contents = .named(nodes)
    }

    /// Leaves the place empty while its contents are changed, so that they are not copied. A place about which nothing
    /// is known has names.
    private mutating func take() -> BlameTree.Contents {
        defer { contents = .value }
        if case .value = contents { return .named([:]) }
        return contents
    }

    fileprivate mutating func change(
        _ path: ArraySlice<PathElement>, by instruction: Instruction, of version: ServerVersion, isAlwaysNew: Bool,
        in arena: ChangesetArena
    ) {
        guard let element = path.first else {
            return write(instruction, of: version, isAlwaysNew: isAlwaysNew, in: arena)
        }
        if element.isIndex, path.count == 1, instruction.kind.isListEdit {
            return edit(at: Int(element.index), by: instruction, of: version, in: arena)
        }
        let rest = path.dropFirst()
        guard element.isIndex else {
            return change(Array(arena.bytes(of: element.name))) { node in
                node.change(rest, by: instruction, of: version, isAlwaysNew: isAlwaysNew, in: arena)
            }
        }
        guard case .list(var nodes) = contents, nodes.indices.contains(Int(element.index)) else { return }
        // An object that is an element of a list stays.
        if rest.isEmpty, instruction.kind == .update, instruction.type == .objectValue { return }
        contents = .value
        nodes[Int(element.index)].change(rest, by: instruction, of: version, isAlwaysNew: isAlwaysNew, in: arena)
        contents = .list(nodes)
    }

    /// Changes the elements of a list.
    private mutating func edit(
        at index: Int, by instruction: Instruction, of version: ServerVersion, in arena: ChangesetArena
    ) {
        var nodes: [Self] = []
        switch contents {
        case .list(let known): nodes = known
        case .value: break
        case .named, .set: return
        }
        contents = .value
        defer { contents = .list(nodes) }
        switch instruction.kind {
        case .arrayInsert where index <= nodes.count:
            nodes.insert(Self(version: version, contents: BlameTree.Contents(new: instruction.type)), at: index)
        case .arrayErase where index < nodes.count: nodes.remove(at: index)
        case .arrayMove where index < nodes.count && Int(instruction.destination) < nodes.count:
            nodes.insert(nodes.remove(at: index), at: Int(instruction.destination))
        default: break
        }
    }

    /// Changes what stands here.
    private mutating func write(
        _ instruction: Instruction, of version: ServerVersion, isAlwaysNew: Bool, in arena: ChangesetArena
    ) {
        switch instruction.kind {
        case .update:
            switch (instruction.type, contents) {
            case (.list, .list), (.dictionary, .named): return
            case (.objectValue, .named) where !isAlwaysNew: return
            default: self = Self(version: version, contents: BlameTree.Contents(new: instruction.type))
            }
        case .addInteger: self.version = version
        case .clear:
            let empty: BlameTree.Contents =
                switch instruction.collection {
                case .list: .list([])
                case .dictionary: .named([:])
                case .set: .set([:])
                case .single: .value
                }
            self = Self(version: version, contents: empty)
        case .setInsert, .setErase:
            var members: [[UInt8]: ServerVersion] = [:]
            if case .set(let known) = contents { members = known }
            contents = .value
            let member = Array(setMember: arena.payload(of: instruction))
            if instruction.kind == .setErase {
                members[member] = nil
            } else if members[member] == nil {
                members[member] = version
            }
            contents = .set(members)
        default: break
        }
    }
}

extension BlameTree.Contents {
    /// The contents of a new value of a type.
    fileprivate init(new type: PayloadType) {
        switch type {
        case .list: self = .list([])
        case .dictionary, .objectValue: self = .named([:])
        default: self = .value
        }
    }
}

extension InstructionKind {
    fileprivate var isListEdit: Bool { self == .arrayInsert || self == .arrayMove || self == .arrayErase }
}

extension [UInt8] {
    /// The JSON under which a member of a set is known: numbers that a set takes for one have one.
    init(setMember value: Payload) {
        self = []
        switch value {
        case .double(let number) where Int64(exactly: number) != nil:
            JSONText.append(Payload.int(Int64(number)), .canonical, to: &self)
        case .float(let number) where Int64(exactly: number) != nil:
            JSONText.append(Payload.int(Int64(number)), .canonical, to: &self)
        default: JSONText.append(value, .canonical, to: &self)
        }
    }
}
