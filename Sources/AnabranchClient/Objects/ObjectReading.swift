public import AnabranchCore
import AnabranchQuery

/// Read access to a store: in a read as it was when the read began, in a transaction including its own changes.
public protocol ObjectReading {
    /// The state that it reads.
    func _view() throws -> _ObjectView
}

/// A state that is read.
public struct _ObjectView {
    let graph: ObjectGraph
    let classes: _BoundClasses
    /// The values of indexed properties; nil if the state is not the stored one.
    let index: StoredIndex?
    /// The objects that have changed since the index was written.
    var changed: [ObjectReference] = []
}

extension ObjectReading {
    /// The object with a key; nil if there is none.
    /// - Throws: `ObjectError`, with the code `badValue` if a property holds a value that the type does not know.
    public func find<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) throws -> Object? {
        let view = try _view(), schema = try ObjectSchema.of(type)
        guard let reader = try view.reader(of: schema, Object.self) else { return nil }
        let reference = ObjectReference(classID: reader.number, key: try id.primaryKey)
        return try view.graph.object(reference).map { try reader.reader.read(type, $0) }
    }

    /// Those of some objects that exist, in the order of their keys: faster than one by one.
    /// - Parameter ids: each once.
    package func find<Object: SyncedObject>(_ type: Object.Type, _ ids: [Object.ID]) throws -> [Object] {
        let view = try _view()
        guard let reader = try view.reader(of: try ObjectSchema.of(type), type) else { return [] }
        let keys = try ids.map { id throws(ObjectError) in try id.primaryKey }.sorted()
        return try view.graph.objects(of: reader.number, keys).map { try reader.reader.read(type, $0) }
    }

    /// The object that a link leads to; nil if the object does not exist, or there is no link.
    public func find<Object: SyncedObject>(_ link: Link<Object>?) throws -> Object? {
        guard let link else { return nil }
        return try find(Object.self, link.id)
    }

    /// The object with a key.
    /// - Throws: `ObjectError` with the code `notFound` if there is none.
    public func get<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) throws -> Object {
        guard let object = try find(type, id) else {
            throw ObjectError(.notFound, "there is no \(type.className) with the key \(id)")
        }
        return object
    }

    /// All objects of a type, in the order of their keys.
    public func all<Object: SyncedObject>(_ type: Object.Type) throws -> [Object] { try objects(Object.all) }

    /// The objects that fulfil a query, in its order.
    /// - Throws: `ObjectError`, with the code `badQuery` if the query makes no sense.
    public func objects<Object: SyncedObject>(_ query: ObjectQuery<Object>) throws -> [Object] {
        let view = try _view()
        guard let reader = try view.reader(of: try ObjectSchema.of(Object.self), Object.self) else { return [] }
        var objects: [Object] = []
        try view.forEach(query) { object throws(ObjectError) in
            objects.append(try reader.reader.read(Object.self, object))
        }
        return objects
    }

    /// The first object that fulfils a query; nil if none does.
    public func first<Object: SyncedObject>(_ query: ObjectQuery<Object>) throws -> Object? {
        try objects(query.limit(1)).first
    }

    /// The number of objects that fulfil a query.
    public func count<Object: SyncedObject>(_ query: ObjectQuery<Object>) throws -> Int {
        let view = try _view()
        guard try view.reader(of: try ObjectSchema.of(Object.self), Object.self) != nil else { return 0 }
        var count = 0
        try view.forEach(query) { _ in count += 1 }
        return count
    }

    /// Reads without types: classes and properties by their names, for tools.
    public func dynamic<Value>(_ body: (WriteTransaction) throws -> Value) throws -> Value {
        try _view().graph.read(body)
    }

    /// The values of one property of the objects that fulfil a query: faster than the objects as a whole.
    public func values<Object: SyncedObject, Value: SyncedValue>(
        of keyPath: KeyPath<Object, Value>, in query: ObjectQuery<Object> = ObjectQuery()
    ) throws -> [Value] {
        let view = try _view(), schema = try ObjectSchema.of(Object.self)
        guard let bound = try view.classes.bound(schema), let property = bound.properties[try schema.index(of: keyPath)]
        else { return [] }
        var values: [Value] = []
        guard query.isEverything else {
            try view.forEach(query) { object throws(ObjectError) in
                values.append(try Value(object.value(of: property), view.classes))
            }
            return values
        }
        do {
            try view.graph.forEachValue(of: property) { value in
                values.append(try Value(value, view.classes))
            }
        } catch {
            throw ObjectError(asking: error)
        }
        return values
    }
}

extension _ObjectView {
    /// - Returns: nil if the state has no such class.
    func reader<Object: SyncedObject>(
        of schema: ObjectSchema, _ type: Object.Type
    ) throws(ObjectError) -> (reader: ObjectReader, number: ClassID)? {
        guard !schema.isAsymmetric else {
            throw ObjectError(.notAllowed, "\(schema.className) is asymmetric: its objects are sent and cannot be read")
        }
        guard let bound = try classes.bound(schema) else { return nil }
        return (ObjectReader(schema, bound.properties, classes), bound.number)
    }

    /// Calls `body` with each object that fulfils a query, in its order.
    func forEach<Object: SyncedObject>(
        _ query: ObjectQuery<Object>, _ body: (StateObject) throws(ObjectError) -> Void
    ) throws {
        guard try classes.bound(try ObjectSchema.of(Object.self)) != nil else { return }
        try QueryPlan(try query.query(of: graph), in: self).forEach(body)
    }
}
