/// A top-level or embedded object of a state, for reading. A value, like the state that it belongs to.
public struct StateObject: Sendable {
    /// The number of its class in the state.
    public let classID: ClassID
    /// The primary key; nil for an embedded object.
    public let key: PrimaryKey?
    let fields: Fields

    init(classID: ClassID, key: PrimaryKey?, fields: Fields) {
        self.classID = classID
        self.key = key
        self.fields = fields
    }

    /// The object as links name it; nil for an embedded one.
    public var reference: ObjectReference? { key.map { ObjectReference(classID: classID, key: $0) } }

    /// The value of a property of its class: the initial value where nothing was written (`Spec/State.md`, A4). A link
    /// is there whether its target exists or not.
    public func value(of property: Property) -> StateValue {
        guard let slot = property.slot else { return key.map(StateValue.init) ?? .null }
        return StateValue(slot < fields.contents.count ? fields.contents[slot] : property.initial, at: property.target)
    }
}

extension ObjectGraph {
    /// A top-level object; nil if it does not exist.
    ///
    /// - Throws: `ApplyError` with the outcome `unavailable` when objects cannot be read.
    public func object(_ reference: ObjectReference) throws(ApplyError) -> StateObject? {
        try object(reference) { _ in true }
    }

    /// A top-level object of which only some values are looked at; nil if it does not exist.
    ///
    /// - Parameter isWanted: true for the slots of these values. The others may be null, so that nothing long is read.
    /// - Throws: `ApplyError` with the outcome `unavailable` when objects cannot be read.
    package func object(
        _ reference: ObjectReference, reading isWanted: (Int) -> Bool
    ) throws(ApplyError) -> StateObject? {
        guard schema.contains(reference.classID), let fields = try fields(of: reference) else { return nil }
        return StateObject(classID: reference.classID, key: reference.key, fields: try inMemory(fields, isWanted))
    }

    /// Those of some top-level objects of a class that exist, in the order of their keys: faster than one by one.
    ///
    /// - Parameter keys: ascending.
    /// - Throws: `ApplyError` with the outcome `unavailable` when objects cannot be read.
    package func objects(of classID: ClassID, _ keys: [PrimaryKey]) throws(ApplyError) -> [StateObject] {
        guard schema.contains(classID) else { return [] }
        var found: [StateObject] = []
        // Their rows are in memory together, so they are read some at a time.
        for start in stride(from: 0, to: keys.count, by: StoredObjects.batchCount) {
            let some = Array(keys[start..<min(start + StoredObjects.batchCount, keys.count)])
            for (key, fields) in zip(some, try self.fields(of: classID, some)) {
                guard let fields else { continue }
                found.append(StateObject(classID: classID, key: key, fields: try inMemory(fields)))
            }
        }
        return found
    }

    /// Calls `body`, which reads single objects: many are read faster together, and few may all be in memory.
    ///
    /// - Parameter count: How many it reads, at most.
    /// - Throws: what `body` throws, or `ApplyError` with the outcome `unavailable`.
    package func readTogether(
        _ count: Int = .max, _ body: () throws(ApplyError) -> Void
    ) throws(ApplyError) {
        guard let rows, count > 2 || rows.fetchesAhead else { return try body() }
        do { try rows.readTogether(body) } catch { throw ApplyError(reading: error) }
    }

    /// Calls `body` with each object of a class, in the order of their keys.
    ///
    /// - Throws: `ApplyError` with the outcome `unavailable` when objects cannot be read.
    public func forEachObject(
        of classID: ClassID, _ body: (StateObject) throws(ApplyError) -> Void
    ) throws(ApplyError) {
        guard schema.contains(classID) else { return }
        try forEachObject(of: classID) { key, fields throws(ApplyError) in
            try body(StateObject(classID: classID, key: key, fields: try inMemory(fields)))
        }
    }

    /// Calls `body` with the objects of a class whose keys are above one, in the order of their keys, until it returns
    /// false.
    ///
    /// - Parameter isWanted: true for the slots of the values that are looked at.
    /// - Throws: `ApplyError` with the outcome `unavailable` when objects cannot be read.
    package func forEachObject(
        of classID: ClassID, after key: PrimaryKey?, reading isWanted: (Int) -> Bool = { _ in true },
        _ body: (StateObject) throws(ApplyError) -> Bool
    ) throws(ApplyError) {
        guard schema.contains(classID) else { return }
        var objects = ObjectCursor(of: classID, after: key, in: self)
        while let (key, fields) = try objects.next() {
            let object = StateObject(classID: classID, key: key, fields: try inMemory(fields, isWanted))
            guard try body(object) else { return }
        }
    }

    /// The fields of an object with all that is stored of the wanted ones in memory, so that nothing can fail when they
    /// are looked at.
    private func inMemory(_ fields: Fields, _ isWanted: (Int) -> Bool = { _ in true }) throws(ApplyError) -> Fields {
        rows == nil || fields.contents.allSatisfy { $0.isInMemory } ? fields : try fields.readAll(of: isWanted)
    }
}
