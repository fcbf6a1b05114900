public import AnabranchCore

/// A transaction on a store: its changes are made as a whole, or not at all (`Spec/Objects.md`, section 4). It belongs
/// to the closure that gets it.
public struct ObjectTransaction: ObjectReading {
    /// The transaction without types, for tools: classes and properties by their names.
    public let dynamic: WriteTransaction
    private let index: StoredIndex
    private let cache: ClassCache

    /// - Parameter index: the index of the state with which the transaction began.
    init(_ transaction: WriteTransaction, _ cache: ClassCache, _ index: StoredIndex) {
        dynamic = transaction
        self.cache = cache
        self.index = index
    }

    /// The state that it reads.
    public func _view() throws -> _ObjectView {
        let state = dynamic.state, changes = dynamic.changes
        return _ObjectView(
            graph: state, classes: cache.classes(of: state), index: changes.isSchemaChanged ? nil : index,
            changed: changes.objects)
    }

    // MARK: Writing

    /// Adds an object.
    /// - Throws: `ObjectError` with the code `exists` if there is one with its key; `ApplyError` for an invalid change,
    ///   such as a link to an object that does not exist.
    public func insert<Object: SyncedObject>(_ object: Object) throws {
        guard try write(object, replaces: false) else {
            throw ObjectError(.exists, "there is a \(Object.className) with the key \(object.id) already")
        }
    }

    /// Adds an object, or replaces all properties of the one with the same key.
    public func save<Object: SyncedObject>(_ object: Object) throws { _ = try write(object, replaces: true) }

    /// Writes only the properties in which a value differs from `old`, the value that was read. Changes that others
    /// have made to other properties since then stay.
    /// - Throws: `ObjectError` with the code `notFound` if the object is gone.
    public func save<Object: SyncedObject>(_ object: Object, changedFrom old: Object) throws {
        let (bound, classes) = try bound(Object.self), schema = bound.schema
        guard object.id == old.id else { throw ObjectError(.notAllowed, "a primary key cannot be changed") }
        try ContentWriter(classes: classes).write(
            try schema.contents(of: object), from: try schema.contents(of: old),
            to: try existing(Object.self, object.id), of: bound)
    }

    /// Changes an object: writes the properties that `body` changes, and in collections only the changed elements.
    /// - Throws: `ObjectError` with the code `notFound` if there is none; what `body` throws.
    public func edit<Object: SyncedObject>(
        _ type: Object.Type, _ id: Object.ID, _ body: (inout Object) throws -> Void
    ) throws {
        let old = try get(type, id)
        var new = old
        try body(&new)
        try save(new, changedFrom: old)
    }

    /// Changes the object that has the key of this one. It may have changed since this one was read.
    /// - Throws: `ObjectError` with the code `notFound` if there is none; what `body` throws.
    public func edit<Object: SyncedObject>(_ object: Object, _ body: (inout Object) throws -> Void) throws {
        try edit(Object.self, object.id, body)
    }

    /// Changes a list in place: use it for long lists, and to move elements.
    public func list<Object: SyncedObject, Element: SyncedValue>(
        _ keyPath: KeyPath<Object, [Element]>, of id: Object.ID
    ) throws -> ObjectList<Element> {
        let (bound, classes) = try bound(Object.self)
        let list = try existing(Object.self, id).list(try bound.schema.field(keyPath).name)
        return ObjectList(list, ContentWriter(classes: classes))
    }

    /// Removes an object, if it exists. Links to it are removed as well.
    /// - Returns: whether it existed.
    @discardableResult
    public func delete<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) throws -> Bool {
        guard let object = try object(type, id) else { return false }
        try dynamic.delete(object)
        return true
    }

    /// Removes an object, if it exists. Links to it are removed as well.
    /// - Returns: whether it existed.
    @discardableResult
    public func delete<Object: SyncedObject>(_ object: Object) throws -> Bool { try delete(Object.self, object.id) }

    /// Removes the objects that fulfil a query.
    /// - Returns: the number of objects that were removed.
    @discardableResult
    public func delete<Object: SyncedObject>(_ query: ObjectQuery<Object>) throws -> Int {
        let objects = try objects(query)
        for object in objects { try delete(object) }
        return objects.count
    }

    // MARK: Objects

    /// - Returns: whether the object was written; false if it exists and must not be replaced.
    private func write<Object: SyncedObject>(_ object: Object, replaces: Bool) throws -> Bool {
        let (bound, classes) = try bound(Object.self), writer = ContentWriter(classes: classes)
        let contents = try bound.schema.contents(of: object), key = try object.id.primaryKey
        if replaces, !bound.schema.isAsymmetric, let old = try find(Object.self, object.id) {
            let old = try bound.schema.contents(of: old)
            try writer.write(contents, from: old, to: try existing(Object.self, object.id), of: bound)
            return true
        }
        let (new, isNew) = try dynamic.create(bound.number, key)
        guard isNew else { return false }
        try writer.write(contents, to: new, of: bound)
        return true
    }

    /// The class of a type, which is added if it is missing or incomplete.
    private func bound<Object: SyncedObject>(_ type: Object.Type) throws -> (BoundClass, _BoundClasses) {
        let schema = try ObjectSchema.of(type)
        if let known = try cache.complete(schema, in: dynamic) { return known }
        try SchemaAddition.add(try SchemaAddition.closure(of: [schema]), to: dynamic)
        guard let new = try cache.complete(schema, in: dynamic) else {
            throw ObjectError(.mismatch, "the class \(schema.className) could not be added")
        }
        return new
    }

    private func existing<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) throws -> DynamicObject {
        guard let object = try object(type, id) else {
            throw ObjectError(.notFound, "there is no \(type.className) with the key \(id)")
        }
        return object
    }

    private func object<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) throws -> DynamicObject? {
        guard let bound = try cache.bound(try ObjectSchema.of(type), in: dynamic) else { return nil }
        return try dynamic.object(ObjectReference(classID: bound.number, key: try id.primaryKey))
    }
}

/// A list of an object in a transaction: each call is one change, which is merged with those of others as such.
public struct ObjectList<Element: SyncedValue> {
    private let list: DynamicList
    private let writer: ContentWriter

    init(_ list: DynamicList, _ writer: ContentWriter) {
        self.list = list
        self.writer = writer
    }

    /// The number of elements.
    public var count: Int { get throws { try list.count } }

    /// Adds an element at the end.
    public func append(_ element: Element) throws { try insert(element, at: try list.count) }

    /// Inserts an element so that it stands at an index from 0 to `count`.
    public func insert(_ element: Element, at index: Int) throws {
        try writer.insert(try element._content(), into: list, at: index)
    }

    /// Replaces the element at an index below `count`.
    public func replace(at index: Int, with element: Element) throws {
        let content = try element._content()
        if case .object(let embedded) = content {
            try list.set(.objectValue, at: index)
            try writer.write(embedded, to: try list.object(at: index))
        } else {
            try list.set(content.payload, at: index)
        }
    }

    /// Removes the element at an index below `count`.
    public func remove(at index: Int) throws { try list.remove(at: index) }

    /// Moves an element so that it stands at `destination` afterwards.
    public func move(from index: Int, to destination: Int) throws { try list.move(from: index, to: destination) }

    /// Removes all elements, also those that others add at the same time.
    public func removeAll() throws { try list.removeAll() }
}
