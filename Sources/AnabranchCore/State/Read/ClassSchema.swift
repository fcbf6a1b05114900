import Synchronization

/// A class of a state and its properties, for readers of objects (`Spec/State.md`, A1 to A3).
public struct ClassSchema: Sendable {
    /// The class's number in its state.
    public let number: ClassID
    /// The name, without the prefix that a database gives its table.
    public let name: [UInt8]
    /// The kind of the class: top-level, embedded or asymmetric.
    public let kind: TableType
    /// The primary key; nil where objects have GlobalKeys or, embedded, no keys.
    public let key: Property?
    /// The columns in the order in which they were added, without the primary key.
    public let properties: [Property]
    private let indices: [[UInt8]: Int]

    init(_ number: ClassID, _ state: ClassState) {
        self.number = number
        name = state.name
        kind = state.kind
        key = state.key.map { Property(key: $0, of: number) }
        properties = state.columns.compactMap { $0.map(Property.init) }
        indices = Dictionary(uniqueKeysWithValues: properties.enumerated().map { ($1.name, $0) })
    }

    /// The property of a name, the primary key included.
    public func property(named name: [UInt8]) -> Property? {
        indices[name].map { properties[$0] } ?? (key?.name == name ? key : nil)
    }
}

/// The classes of a schema as readers know them. Each is made when it is first asked for: the queries of many clients
/// have it in common.
final class ClassSchemas: Sendable {
    private let known = Mutex<[ClassID: ClassSchema]>([:])

    /// A class with the given state.
    func schema(of number: ClassID, _ state: ClassState) -> ClassSchema {
        known.withLock { known in
            if let schema = known[number] { return schema }
            let made = ClassSchema(number, state)
            known[number] = made
            return made
        }
    }
}

/// A property of a class: its primary key or a column.
public struct Property: Sendable {
    /// The name as it is stored.
    public let name: [UInt8]
    /// The type of the value or the elements; `null` means Mixed.
    public let type: PayloadType
    /// True if the value, or an element, can be null.
    public let isNullable: Bool
    /// The kind of collection; `single` for one value.
    public let collection: CollectionType
    /// The class of the linked or embedded objects.
    public let target: ClassID?
    /// True if objects stand here themselves, not links to them.
    public let isEmbedded: Bool
    /// The class whose property it is.
    public let owner: ClassID
    /// The type of the property as a place; nil for the primary key.
    let place: Place?
    let initial: Content

    init(_ column: Column) {
        name = column.name
        type = column.place.type
        isNullable = column.place.isNullable
        collection = column.place.collection
        target = type == .link ? column.place.target : nil
        isEmbedded = column.place.isEmbedded
        owner = column.place.owner
        place = column.place
        initial = column.initial
    }

    init(key: ClassState.KeyColumn, of owner: ClassID) {
        name = key.name
        type = key.type
        isNullable = key.isNullable
        collection = .single
        target = nil
        isEmbedded = false
        self.owner = owner
        place = nil
        initial = .null
    }

    /// The slot of the property in its class; nil for the primary key.
    package var slot: Int? { place?.slot }

    /// True for the primary key of the class.
    public var isKey: Bool { place == nil }
}

extension Property: Hashable {
    /// True if both are the same property of one state.
    public static func == (left: Property, right: Property) -> Bool {
        left.owner == right.owner && left.slot == right.slot && left.name == right.name
    }

    /// Combines the class and the name.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(owner)
        hasher.combine(name)
    }
}

extension ObjectGraph {
    /// The classes, in the order in which they were added.
    public var classes: [ClassSchema] { schema.present.map(readable) }

    private func readable(_ number: ClassID) -> ClassSchema {
        schema.classSchemas.schema(of: number, schema[number])
    }

    /// The state's classes without any objects.
    package var withoutObjects: ObjectGraph {
        var graph = ObjectGraph()
        for state in schema.classes {
            graph.schema.add(state)
            graph.objects.append(CountedTree())
        }
        return graph
    }

    /// A stamp that stays the same as long as no class or column is added or removed.
    package var schemaStamp: SchemaStamp { schema.stamp }

    /// A number that grows with each class and each column that is added.
    package var schemaSize: Int { schema.classes.count + schema.slotCount }

    /// The number of a class; cheaper than its schema.
    package func classID(of name: [UInt8]) -> ClassID? { schema.number(of: name) }

    /// True if a class is asymmetric.
    package func isAsymmetric(_ number: ClassID) -> Bool { schema.traits(of: number).kind == .topLevelAsymmetric }

    /// A class by its number; nil if it was erased.
    public func schema(of number: ClassID) -> ClassSchema? {
        schema.contains(number) ? readable(number) : nil
    }

    /// A class by its name, in UTF-8; nil if there is none.
    public func schema(ofClass name: [UInt8]) -> ClassSchema? {
        schema.number(of: name).map(readable)
    }
}
