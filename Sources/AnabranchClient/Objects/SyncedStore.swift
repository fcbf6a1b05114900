import AnabranchCore
import Logging

/// Objects in a file, which an application reads and writes whether or not a server is reachable, and which a
/// `SyncClient` synchronizes (`Spec/Objects.md`).
///
///     let store = try await SyncedStore("tasks.store", Chore.self, Person.self)
///     try await store.write { tx in try tx.insert(Chore(title: "Water the plants")) }
///     let open = try store.read { try $0.objects(Chore.where { !$0.isDone }) }
///     try await client.add(store, partition: "chores")
///
/// Reads run on the calling thread, any number at a time, and see the latest committed state; writes take turns.
public final class SyncedStore: Sendable {
    /// The file as a replica, for its synchronization and for tools.
    public let replica: SyncedReplica
    private let cache = ClassCache()
    /// The observations of owners (`addObserver`).
    let owners = OwnedTasks()
    /// The schemas of the types, and of all types that they lead to.
    private let declared: [ObjectSchema]
    /// The properties that were added when the store was opened, and may be intended as new names of stored ones. Each
    /// is also a warning in the log, with the label `anabranch.client`.
    public let possibleRenames: [PossibleRename]

    /// Opens or creates a file, and adds the classes and properties that the types declare and the file does not have.
    ///
    /// - Parameters:
    ///   - path: the path of the file.
    ///   - types: the types whose classes are added, together with those that they link to or hold. The classes of
    ///     other types are added when their first objects are written.
    /// - Throws: `ReplicaError`, with the code `inUse` if another process or object has the file open for writing;
    ///   `ObjectError` if a type cannot be synchronized as it is declared, or the file has something else under its
    ///   name.
    public convenience init(_ path: String, _ types: any SyncedObject.Type...) async throws {
        try await self.init(try SyncedReplica(path: path), types)
    }

    /// A store of the objects in a replica.
    public init(_ replica: SyncedReplica, _ types: [any SyncedObject.Type]) async throws {
        self.replica = replica
        declared = try SchemaAddition.closure(
            of: try types.map { type throws(ObjectError) in try ObjectSchema.of(type) })
        possibleRenames = try await Self.add(declared, to: replica, cache)
        try await replica.declareIndex(declared.filter { $0.key != nil })
    }

    /// Adds what is declared and missing, when the store is opened and after a client reset.
    func addClasses() async throws { _ = try await Self.add(declared, to: replica, cache) }

    private static func add(
        _ declared: [ObjectSchema], to replica: SyncedReplica, _ cache: ClassCache
    ) async throws -> [PossibleRename] {
        let renames = try await replica.write { tx in
            for schema in declared where try cache.complete(schema, in: tx) == nil {
                return try SchemaAddition.add(declared, to: tx)
            }
            return []
        }
        let logger = Logger(label: "anabranch.client")
        for rename in renames { logger.warning("\(rename)") }
        return renames
    }

    /// Ends the synchronization without a report, and closes the file. No other call may follow.
    public func close() async throws { try await replica.close() }

    // MARK: Reading and writing

    /// Reads the current state, all of it as of one moment, on this thread. The snapshot that `body` gets cannot be
    /// used after it has returned.
    public func read<Value>(_ body: (ObjectSnapshot) throws -> Value) throws -> Value {
        try replica.reading { stored in
            let snapshot = ObjectSnapshot(stored, cache.classes(of: stored.graph))
            defer { snapshot.end() }
            return try body(snapshot)
        }
    }

    /// The objects that fulfil a query, in its order, as they are now; see `ObjectReading.objects`.
    public func objects<Object: SyncedObject>(_ query: ObjectQuery<Object>) throws -> [Object] {
        try read { try $0.objects(query) }
    }

    /// The number of objects that fulfil a query now; see `ObjectReading.count`.
    public func count<Object: SyncedObject>(_ query: ObjectQuery<Object>) throws -> Int {
        try read { try $0.count(query) }
    }

    /// The object with a key as it is now; see `ObjectReading.get`.
    public func get<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) throws -> Object {
        try read { try $0.get(type, id) }
    }

    /// The object with a key as it is now, nil if there is none; see `ObjectReading.find`.
    public func find<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) throws -> Object? {
        try read { try $0.find(type, id) }
    }

    /// Makes a transaction. When it returns, the changes are durable; they are uploaded when there is a connection.
    ///
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, and then nothing is changed; `ReplicaError` if the disk fails.
    @discardableResult
    public func write<Value: Sendable>(
        _ body: @Sendable (ObjectTransaction) throws -> Value
    ) async throws -> Value {
        let cache = cache
        return try await replica.write { tx, index in try body(ObjectTransaction(tx, cache, index)) }
    }
}

/// The contents of a store at one moment. It belongs to the closure that gets it.
public final class ObjectSnapshot: ObjectReading {
    private var view: _ObjectView?

    init(_ stored: StoredState, _ classes: _BoundClasses) {
        view = _ObjectView(graph: stored.graph, classes: classes, index: stored.index)
    }

    func end() { view = nil }

    /// The state that it reads.
    public func _view() throws -> _ObjectView {
        guard let view else { throw ObjectError(.notAllowed, "what was read is used after the read") }
        return view
    }
}

// MARK: - Observing

extension SyncedStore {
    /// The results of a query, and from then on their changes.
    public func changes<Object: SyncedObject>(of query: ObjectQuery<Object>) -> ObjectChanges<QueryChange<Object>> {
        ObjectChanges(of: QuerySource(query), in: replica, cache)
    }

    /// An object, and from then on its changes.
    /// - Throws: `ObjectError` if the id is not a valid key.
    public func changes<Object: SyncedObject>(
        of type: Object.Type, _ id: Object.ID
    ) throws -> ObjectChanges<ObjectChange<Object>> {
        ObjectChanges(of: try SingleSource<Object>(id), in: replica, cache)
    }

    /// The elements of a list of an object, and from then on their changes.
    /// - Throws: `ObjectError` if the key path leads to no property that is stored.
    public func changes<Object: SyncedObject, Element: SyncedValue>(
        of keyPath: any KeyPath<Object, [Element]> & Sendable, in id: Object.ID
    ) throws -> ObjectChanges<ListChange<Element>> {
        ObjectChanges(of: try ListSource<Object, Element>(id, keyPath), in: replica, cache)
    }

    /// The changes at a path and below it, from now on: the first element is empty, and says that the observation has
    /// begun. Each further one has every path once, in the order of their first changes.
    public func changes(at path: ObjectPath, _ scope: PathScope = .pathAndDescendants) -> ObjectChanges<[PathChange]> {
        ObjectChanges(of: PathSource(path, scope), in: replica, cache)
    }
}
