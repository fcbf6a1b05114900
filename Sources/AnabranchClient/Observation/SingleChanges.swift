import AnabranchCore

/// A change to an observed object, since the previous report; first its present value.
public struct ObjectChange<Object: SyncedObject>: Sendable {
    /// The object before; nil if it did not exist, and with the first change.
    public let old: Object?
    /// The object now; nil if it does not exist.
    public let new: Object?
    /// The names of the properties that have changed: all of them if it was created or deleted.
    public let properties: Set<String>

    /// True if a property has changed.
    public func isChanged(_ keyPath: PartialKeyPath<Object>) -> Bool {
        (try? Object._name(of: keyPath)).map(properties.contains) ?? false
    }
}

struct SingleSource<Object: SyncedObject>: ChangeSource {
    private let key: PrimaryKey
    private var hasLooked = false
    private var value: Object?
    private var classes: _BoundClasses?

    init(_ id: Object.ID) throws(ObjectError) { key = try id.primaryKey }

    var interest: Interest { .object(className: Array(Object.className.utf8), key: key) }

    mutating func look(at state: StoredState, _ classes: _BoundClasses) throws -> ObjectChange<Object>? {
        self.classes = classes
        var object: StateObject?
        if let bound = try classes.bound(try ObjectSchema.of(Object.self)) {
            object = try state.graph.object(ObjectReference(classID: bound.number, key: key))
        }
        let isFirst = !hasLooked
        hasLooked = true
        return try change(to: object, classes, isFirst: isFirst)
    }

    mutating func take(_ pending: PendingChanges) throws -> SourceUpdate<ObjectChange<Object>> {
        guard let classes, let number = try classes.bound(try ObjectSchema.of(Object.self))?.number else {
            return .unknown
        }
        let own = ObjectReference(classID: number, key: key)
        guard let last = pending.changes.last(where: { $0.object == own }) else { return .nothing }
        return try change(to: last.after, classes, isFirst: false).map { .change($0) } ?? .nothing
    }

    /// - Returns: nil if it has not changed.
    private mutating func change(
        to object: StateObject?, _ classes: _BoundClasses, isFirst: Bool
    ) throws -> ObjectChange<Object>? {
        let schema = try ObjectSchema.of(Object.self), old = value
        value = try object.map { try classes.reader(of: schema).read(Object.self, $0) }
        let before = try old.map { try schema.contents(of: $0) }, after = try value.map { try schema.contents(of: $0) }
        let changed = schema.fields.indices.filter { before?[$0] != after?[$0] }.map { schema.fields[$0].name }
        guard isFirst || !changed.isEmpty else { return nil }
        return ObjectChange(old: old, new: value, properties: Set(changed))
    }
}

/// A change to a list of an object.
public struct ListChange<Element: SyncedValue>: Sendable {
    /// The elements before; none with the first change.
    public let old: [Element]
    /// The elements now; none if the object does not exist.
    public let elements: [Element]
    /// The indices in `old` of the elements that were removed; ascending.
    public let deletions: [Int]
    /// The indices in `elements` of the elements that were inserted; ascending.
    public let insertions: [Int]
    /// The indices in `old` and in `elements` of the elements that were replaced; ascending.
    public let modifications: [(old: Int, new: Int)]
}

struct ListSource<Object: SyncedObject, Element: SyncedValue>: ChangeSource {
    private let field: Int
    private var object: SingleSource<Object>
    private let keyPath: @Sendable (Object) -> [Element]
    private var isFirst = true
    private var elements: [Element] = []

    init(_ id: Object.ID, _ keyPath: any KeyPath<Object, [Element]> & Sendable) throws(ObjectError) {
        field = try ObjectSchema.of(Object.self).index(of: keyPath)
        object = try SingleSource(id)
        self.keyPath = { $0[keyPath: keyPath] }
    }

    var interest: Interest { object.interest }

    mutating func look(at state: StoredState, _ classes: _BoundClasses) throws -> ListChange<Element>? {
        try object.look(at: state, classes).flatMap { try change(to: $0.new.map(keyPath) ?? []) }
    }

    mutating func take(_ pending: PendingChanges) throws -> SourceUpdate<ListChange<Element>> {
        switch try object.take(pending) {
        case .unknown: .unknown
        case .nothing: .nothing
        case .change(let object): try change(to: object.new.map(keyPath) ?? []).map { .change($0) } ?? .nothing
        }
    }

    private mutating func change(to new: [Element]) throws -> ListChange<Element>? {
        let old = elements
        elements = new
        let difference = ListDifference(
            from: try old.map { try $0._content() }, to: try new.map { try $0._content() })
        defer { isFirst = false }
        guard isFirst || !difference.steps.isEmpty else { return nil }
        return ListChange(
            old: old, elements: new, deletions: difference.removed, insertions: difference.inserted,
            modifications: difference.replaced)
    }
}
