import AnabranchCore

/// A field of a class of the random world.
struct FieldShape {
    var name: String
    var type: PayloadType
    var isNullable = false
    var collection = CollectionType.single
    /// The class linked to, or whose objects are embedded.
    var target: String?

    /// An element of the collection.
    var element: FieldShape {
        var element = self
        element.collection = .single
        return element
    }
}

/// A class of the random world.
struct ClassShape {
    enum Kind {
        case keyed(String, PayloadType, isNullable: Bool)
        case globalKeys, embedded, asymmetric
    }

    var name: String
    var kind: Kind
    /// The fields that the class has from the start.
    var fields: [FieldShape]
    /// Fields that are added and erased during a round.
    var passingFields: [FieldShape] = []
}

/// The schema of the random world: classes of every kind, columns of every type in every collection.
enum RandomSchema {
    static let classes = [task, note, log, part, event, passing]

    static let task = ClassShape(
        name: "Task", kind: .keyed("_id", .int, isNullable: false),
        fields: scalars + [
            FieldShape(name: "mixed", type: .null), FieldShape(name: "mixed2", type: .null),
            FieldShape(name: "parent", type: .link, target: "Task"),
            FieldShape(name: "note", type: .link, target: "Note"),
            FieldShape(name: "log", type: .link, target: "Log"),
            FieldShape(name: "ints", type: .int, collection: .list),
            FieldShape(name: "names", type: .string, isNullable: true, collection: .list),
            FieldShape(name: "values", type: .null, collection: .list),
            FieldShape(name: "notes", type: .link, collection: .list, target: "Note"),
            FieldShape(name: "numbers", type: .int, isNullable: true, collection: .set),
            FieldShape(name: "tags", type: .string, collection: .set),
            FieldShape(name: "marks", type: .null, collection: .set),
            FieldShape(name: "friends", type: .link, collection: .set, target: "Task"),
            FieldShape(name: "readers", type: .link, collection: .set, target: "Note"),
            FieldShape(name: "counts", type: .int, collection: .dictionary),
            FieldShape(name: "extras", type: .null, collection: .dictionary),
            FieldShape(name: "related", type: .link, collection: .dictionary, target: "Task"),
            FieldShape(name: "part", type: .link, target: "Part"),
            FieldShape(name: "parts", type: .link, collection: .list, target: "Part"),
            FieldShape(name: "partOf", type: .link, collection: .dictionary, target: "Part"),
        ],
        passingFields: [
            FieldShape(name: "passingInt", type: .int), FieldShape(name: "passingMixed", type: .null),
            FieldShape(name: "passingList", type: .int, collection: .list),
            FieldShape(name: "passingSet", type: .int, collection: .set),
            FieldShape(name: "passingLink", type: .link, target: "Passing"),
            FieldShape(name: "passingLinks", type: .link, collection: .list, target: "Passing"),
        ])

    private static let scalars =
        [
            PayloadType.int, .bool, .string, .binary, .timestamp, .float, .double, .decimal, .objectID, .uuid,
        ].map { FieldShape(name: "\($0)", type: $0) }
        + [
            FieldShape(name: "counter", type: .int), FieldShape(name: "count", type: .int, isNullable: true),
            FieldShape(name: "title", type: .string, isNullable: true),
        ]

    static let note = ClassShape(
        name: "Note", kind: .keyed("name", .string, isNullable: true),
        fields: [
            FieldShape(name: "text", type: .string), FieldShape(name: "size", type: .int),
            FieldShape(name: "lines", type: .string, collection: .list),
            FieldShape(name: "owner", type: .null),
            FieldShape(name: "tasks", type: .link, collection: .list, target: "Task"),
        ])

    static let log = ClassShape(
        name: "Log", kind: .globalKeys,
        fields: [
            FieldShape(name: "value", type: .null), FieldShape(name: "previous", type: .link, target: "Log"),
            FieldShape(name: "total", type: .int),
        ])

    static let part = ClassShape(
        name: "Part", kind: .embedded,
        fields: [
            FieldShape(name: "x", type: .int), FieldShape(name: "word", type: .string, isNullable: true),
            FieldShape(name: "free", type: .null), FieldShape(name: "row", type: .int, collection: .list),
            FieldShape(name: "next", type: .link, target: "Part"),
            FieldShape(name: "bag", type: .int, collection: .set),
        ],
        passingFields: [FieldShape(name: "passingX", type: .int)])

    static let event = ClassShape(
        name: "Event", kind: .asymmetric, fields: [FieldShape(name: "what", type: .string)])

    /// Erased and added again during a round.
    static let passing = ClassShape(
        name: "Passing", kind: .keyed("_id", .int, isNullable: false),
        fields: [
            FieldShape(name: "x", type: .int), FieldShape(name: "row", type: .int, collection: .list),
            FieldShape(name: "to", type: .link, target: "Task"),
        ])

    /// The names of the fields of embedded objects; no dictionary key is one of them.
    static let embeddedFields = Set((part.fields + part.passingFields).map(\.name))

    /// The class that a column links to; nil for a column that is not of links.
    static let targets = Dictionary(
        uniqueKeysWithValues: classes.flatMap { shape in
            (shape.fields + shape.passingFields).compactMap { field in
                field.target.map { (Column(className: shape.name, field: field.name), $0) }
            }
        })

    struct Column: Hashable {
        var className: String
        var field: String
    }
}

extension WriteTransaction {
    func add(_ shape: ClassShape) throws {
        switch shape.kind {
        case .keyed(let field, let type, let isNullable):
            try addClass(shape.name, key: field, type, isNullable: isNullable)
        case .globalKeys: try addClass(shape.name)
        case .embedded: try addEmbeddedClass(shape.name)
        case .asymmetric: try addClass(shape.name, key: "_id", .uuid, isAsymmetric: true)
        }
    }

    func add(_ field: FieldShape, to className: String) throws {
        if let target = field.target {
            try addLink(field.name, to: target, collection: field.collection, of: className)
        } else {
            try addColumn(
                field.name, field.type, isNullable: field.isNullable, collection: field.collection, to: className)
        }
    }
}
