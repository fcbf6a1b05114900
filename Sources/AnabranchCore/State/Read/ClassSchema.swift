/// A class of a state and its properties, for those who read objects (`Spec/State.md`, A1 to A3).
public struct ClassSchema: Sendable {
    /// The class's number in its state.
    public let number: ClassID
    /// The name, without the prefix that a database gives its table.
    public let name: [UInt8]
    /// Whether objects stand for themselves.
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

/// A property of a class: its primary key or a column.
public struct Property: Sendable {
    /// The name as it is stored.
    public let name: [UInt8]
    /// Of the value or the elements; `null` means Mixed.
    public let type: PayloadType
    /// Whether a value or an element can be null.
    public let isNullable: Bool
    /// Whether there is one value or a collection of them.
    public let collection: CollectionType
    /// Of links and embedded objects, their class.
    public let target: ClassID?
    /// Objects stand here themselves, not links to them.
    public let isEmbedded: Bool
    /// The class whose property it is.
    public let owner: ClassID
    /// Nil for the primary key.
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

    /// Nil for the primary key.
    package var slot: Int? { place?.slot }

    /// It is the primary key of its class.
    public var isKey: Bool { place == nil }
}

extension Property: Hashable {
    /// Whether both are the same property of one state.
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
    /// The classes that there are, in the order in which they were added.
    public var classes: [ClassSchema] { schema.present.map { ClassSchema($0, schema[$0]) } }

    /// The classes alone.
    package var withoutObjects: ObjectGraph {
        var graph = ObjectGraph()
        for state in schema.classes {
            graph.schema.add(state)
            graph.objects.append(CountedTree())
        }
        return graph
    }

    /// The same as long as no class or column is added or removed.
    package var schemaStamp: SchemaStamp { schema.stamp }

    /// Grows with each class and each column that is added.
    package var schemaSize: Int { schema.classes.count + schema.slotCount }

    /// The number of a class; cheaper than its schema.
    package func classID(of name: [UInt8]) -> ClassID? { schema.number(of: name) }

    /// Whether a class is asymmetric.
    package func isAsymmetric(_ number: ClassID) -> Bool { schema.traits(of: number).kind == .topLevelAsymmetric }

    /// A class by its number; nil if it was erased.
    public func schema(of number: ClassID) -> ClassSchema? {
        schema.contains(number) ? ClassSchema(number, schema[number]) : nil
    }

    /// A class by its name.
    public func schema(ofClass name: [UInt8]) -> ClassSchema? {
        schema.number(of: name).map { ClassSchema($0, schema[$0]) }
    }
}
