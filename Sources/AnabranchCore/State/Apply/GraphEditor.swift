/// Changes a state instruction by instruction; the original state stays as it was.
///
/// The effects themselves are in `SchemaEdits.swift`, `FieldEdits.swift` and `CollectionEdits.swift`.
struct GraphEditor {
    /// The effect of an instruction.
    enum Effect {
        case applied
        /// There was nothing to do, which is not an error (`Spec/State.md`, B10).
        case ignored
    }

    var graph: ObjectGraph
    var changes = StateChanges()
    var refusals: ApplyRefusals = []
    /// True while the edit is in a list, or below one, where released clients cannot overwrite dangling links.
    var isBelowList = false
    /// The largest size that an object can grow to, in bytes (`Content.size`). A larger one may shrink.
    var objectBytesMax = Int.max
    /// The most that `ObjectGraph.loadedBytes` may grow by, in bytes.
    var loadedBytesMax = Int.max
    private let loadedBytesBefore: Int
    /// The object that was addressed last, moved out of the graph: instructions on one object follow each other.
    var current = CurrentObject.none
    /// Objects that do not exist and that a link was written to since the current object was loaded.
    private var danglingTargets: [ObjectReference] = []
    /// The objects not in memory that were looked up, with true for those that exist: many links may lead to one, whose
    /// row may be large.
    private var storedExistence: [ObjectReference: Bool] = [:]
    /// By class, the greatest key of a stored object, nil if there is none: those above it are not looked up, and most
    /// new objects are.
    private var greatestKeys: [ClassID: PrimaryKey?] = [:]
    /// The number of objects that were looked up and have no row.
    private var missingCount = 0
    /// Values in parts that others were compared with, by object and number.
    private var readValues: [ObjectReference: [UInt64: Content]] = [:]
    private var readValueBytes = 0
    /// Objects of asymmetric classes that were created.
    private var asymmetricObjects: [ObjectReference] = []

    struct CurrentObject {
        let reference: ObjectReference
        /// Its index in memory, or where it would be inserted.
        var index = 0
        let isInMemory: Bool
        var exists: Bool
        /// True if the object does not exist, but links to it may.
        var isTombstone: Bool
        var fields: Fields
        /// The size of all fields together, in bytes; kept up to date while they change.
        var size = 0
        /// The value of `Schema.erasedColumnCount` when values in erased columns were last removed from the fields.
        var erasedColumnCount: UInt32 = 0
        /// The object as stored in its rows; nil if these hold no object or were not read.
        var stored: StoredObject?
        /// The size of its row, in bytes; 0 if the object was not read from there.
        var rowBytes = 0
        var isChanged = false

        static let none = CurrentObject(
            reference: ObjectReference(classID: ClassID(0), key: .null), isInMemory: false,
            exists: false, isTombstone: false, fields: Fields())
    }

    init(_ graph: ObjectGraph) {
        self.graph = graph
        loadedBytesBefore = graph.loadedBytes
    }

    var schema: Schema {
        _read { yield graph.schema }
    }

    /// Finishes the edits and returns the resulting state with its changes.
    mutating func finish() -> (graph: ObjectGraph, changes: StateChanges) {
        flush()
        graph.reads.add(-readValueBytes)
        return (graph, changes)
    }

    // MARK: Finding (B1)

    func classID(_ name: [UInt8]) throws(ApplyError) -> ClassID {
        guard let number = graph.schema.number(of: name) else { throw .invalid("no such class") }
        return number
    }

    /// Checks that objects of a class can have this key (B1, step 2).
    func checkKey(_ key: PrimaryKey, of classID: ClassID) throws(ApplyError) {
        guard graph.schema.traits(of: classID).accepts(key) else {
            throw .invalid("a key of type \(key.type) does not fit the class")
        }
        try checkLength(of: key)
    }

    func checkLength(of key: PrimaryKey) throws(ApplyError) {
        let max = graph.rows?.primaryKeyBytesMax ?? Schema.primaryKeyBytesMax
        guard key.byteCount <= max else {
            throw .invalid("a primary key of \(key.byteCount) bytes, more than the \(max) that it may have")
        }
    }

    /// True if the object exists; looks at the current object first.
    mutating func exists(_ object: ObjectReference) throws(ApplyError) -> Bool {
        if current.reference == object { return current.exists }
        if let known = graph.containsInMemory(object) ?? storedExistence[object] { return known }
        let exists = try graph.contains(object)
        storedExistence[object] = exists
        return exists
    }

    /// The place of a field that a path instruction names; nil for the primary key.
    mutating func place(of field: [UInt8], in object: ObjectReference) throws(ApplyError) -> Place? {
        guard try exists(object) else { throw .invalid("no such object") }
        if let place = schema[object.classID].place(of: field) { return place }
        guard schema[object.classID].isKey(field) else { throw .invalid("no such field") }
        return nil
    }

    /// The fields of an object; nil if it does not exist.
    func fields(of object: ObjectReference) throws(ApplyError) -> Fields? {
        if current.reference == object { return current.exists ? current.fields : nil }
        return try graph.fields(of: object)
    }

    /// Records that the current object gets a link, which leaves a tombstone if its target does not exist (A6).
    mutating func recordLink(to object: ObjectReference) throws(ApplyError) {
        if try !exists(object) { danglingTargets.append(object) }
        countUnwritten(Backlink.byteCount(from: current.reference, to: object))
    }

    // MARK: Objects (B4)

    /// Creates an object, whose key `checkKey` has accepted.
    mutating func createObject(_ object: ObjectReference) throws(ApplyError) -> Effect {
        let kind = graph.schema.traits(of: object.classID).kind
        guard kind != .embedded else { throw .rejected("the class is embedded") }
        try load(object)
        guard !current.exists else { return .ignored }
        if kind == .topLevelAsymmetric { asymmetricObjects.append(object) }
        current.exists = true
        current.isChanged = true
        return .applied
    }

    /// True if the object does not exist, but links to it may.
    mutating func isTombstone(_ object: ObjectReference) throws(ApplyError) -> Bool {
        try load(object)
        return current.isTombstone && !current.exists
    }

    /// Erases an object, whose key `checkKey` has accepted.
    mutating func eraseObject(_ object: ObjectReference) throws(ApplyError) -> Effect {
        try load(object)
        guard current.exists else { return .ignored }
        try countErasure(of: .object(current.fields))
        current.exists = false
        current.fields = Fields()
        current.size = 0
        current.isChanged = true
        return .applied
    }

    /// Erases the new objects of asymmetric classes at the end of a transaction, on a replica that does not keep them
    /// (A1).
    mutating func eraseNewAsymmetricObjects() throws(ApplyError) {
        for object in asymmetricObjects where schema.contains(object.classID) { _ = try eraseObject(object) }
        asymmetricObjects.removeAll()
    }

    // MARK: Fields (B1)

    /// Carries out an edit at a place of an object, given by a field and a path from there.
    mutating func edit(
        _ object: ObjectReference, _ place: Place, _ path: ArraySlice<PathStep>, _ edit: Edit
    ) throws(ApplyError) -> Effect {
        try load(object)
        isBelowList = refusals.contains(.danglingOverwrites) && path.contains(where: \.isIndex)
        if graph.rows != nil { try checkLoadedBytes() }
        let size = current.size
        guard size > objectBytesMax - edit.growthMax(along: path) else { return try editCurrent(place, path, edit) }
        // The object may become too large: a copy has a cost, but makes the edit reversible. What grows with each link
        // stays out of it, or each edit would copy all of that.
        var before = self
        let readBytes = graph.readBytes, danglingCount = danglingTargets.count
        (before.danglingTargets, before.storedExistence) = ([], [:])
        let effect = try editCurrent(place, path, edit)
        guard current.size > objectBytesMax, current.size > size else { return effect }
        let error = ApplyError.objectTooLarge(current.size, max: objectBytesMax)
        danglingTargets.removeLast(danglingTargets.count - danglingCount)
        swap(&before.danglingTargets, &danglingTargets)
        swap(&before.storedExistence, &storedExistence)
        self = before
        graph.forgetReads(beyond: readBytes)
        throw error
    }

    private mutating func editCurrent(
        _ place: Place, _ path: ArraySlice<PathStep>, _ edit: Edit
    ) throws(ApplyError) -> Effect {
        // The fields are moved out and back, so that they are changed in place.
        var fields = Fields()
        guard current.exists else { throw .invalid("no such object") }
        swap(&fields, &current.fields)
        defer { current.fields = fields }
        let effect = try self.edit(&fields, at: place, path, edit)
        if effect == .applied { current.isChanged = true }
        return effect
    }

    // MARK: The current object

    /// Finds where a value stands in a set of the current object, or would be inserted. Values that are read for this
    /// stay in memory: the next value may have to be compared with them as well.
    mutating func find(
        _ value: Content, in elements: ContentSet
    ) throws(ApplyError) -> (index: Int, element: SetElement?) {
        try elements.find(value) { stored throws(ApplyError) in
            if let content = readValues[current.reference]?[stored.number] { return content }
            try checkLoadedBytes(with: stored.byteCount)
            let content = try stored.content()
            graph.reads.add(stored.byteCount)
            readValueBytes += stored.byteCount
            readValues[current.reference, default: [:]][stored.number] = content
            return content
        }
    }

    /// Replaces the content of a place in the current object.
    @inline(__always)
    mutating func set(_ content: inout Content, to value: Content) throws(ApplyError) {
        try countErasure(of: content)
        grow(by: value.size - content.size)
        content = value
    }

    /// Adds to the size of the current object; `bytes` is negative if the object shrinks.
    @inline(__always)
    mutating func grow(by bytes: Int) { current.size += bytes }

    /// Makes an object the current one.
    private mutating func load(_ object: ObjectReference) throws(ApplyError) {
        if current.reference == object { return }
        flush()
        let position = Int(object.classID.rawValue) - 1
        let found = graph.objects[position].modify {
            $0.compare(object.key)
        } _: { entry in
            // The fields are moved out, so that they are changed in place.
            let fields = entry.fields.take()
            return CurrentObject(
                reference: object, isInMemory: true, exists: fields != nil, isTombstone: fields == nil,
                fields: fields ?? Fields(), size: entry.size, erasedColumnCount: entry.erasedColumnCount)
        }
        if let result = found.result {
            current = result
            current.index = found.index
        } else {
            current = CurrentObject(
                reference: object, index: found.index, isInMemory: false, exists: false, isTombstone: false,
                fields: Fields(), erasedColumnCount: schema.erasedColumnCount)
            if graph.rows != nil { try loadStored(object) }
        }
        if current.erasedColumnCount != schema.erasedColumnCount { try dropErasedValues() }
    }

    /// Loads the current object from its rows.
    private mutating func loadStored(_ object: ObjectReference) throws(ApplyError) {
        do throws(ApplyError) {
            let isAbove = greatestKeys[object.classID].map { $0.map { $0 < object.key } ?? true } ?? false
            let entry = isAbove ? nil : try graph.storedEntry(of: object)
            try checkLoadedBytes(with: entry?.byteCount ?? 0)
            guard let entry else { return isAbove ? () : missed(object.classID) }
            current.rowBytes = entry.byteCount
            guard let stored = entry.object else { return current.isTombstone = true }
            (current.exists, current.fields, current.stored) = (true, stored.fields, stored)
            (current.size, current.erasedColumnCount) = (stored.fields.size, stored.erasedColumnCount)
        } catch {
            current = .none
            throw error
        }
    }

    /// Finds the greatest key of a class when a second object has no row: most transactions create only one.
    private mutating func missed(_ classID: ClassID) {
        missingCount += 1
        guard missingCount > 1, greatestKeys[classID] == nil else { return }
        // Where it cannot be read, objects are looked up one by one.
        guard let bytes = try? graph.rows?.greatestKey(of: classID) else { return }
        let key = PrimaryKey(rowKey: bytes)
        if key != nil || bytes.isEmpty { greatestKeys[classID] = .some(key) }
    }

    /// Checks that `more` bytes can be loaded. Called often, because objects are read one by one, and their parts with
    /// each edit.
    func checkLoadedBytes(with more: Int = 0) throws(ApplyError) {
        guard graph.loadedBytes - loadedBytesBefore <= loadedBytesMax - more else {
            throw .loadsTooMuch(max: loadedBytesMax)
        }
    }

    /// Removes what the current object holds in erased columns, which does not count towards its size.
    private mutating func dropErasedValues() throws(ApplyError) {
        let classID = current.reference.classID
        do throws(ApplyError) {
            let bytes = schema.erasureSearchBytes(current.fields, of: classID)
            try checkLoadedBytes(with: bytes)
            graph.reads.add(bytes)
            var erased = ErasedValues()
            if let rest = try schema.withoutErasedValues(current.fields, of: classID, &erased) {
                (current.fields, current.size) = (rest, current.size - erased.size)
            }
            try countErasure(ofLinks: erased.linkCount)
            current.erasedColumnCount = schema.erasedColumnCount
        } catch {
            flush()
            throw error
        }
    }

    /// Writes the current object back into the graph; everything that looks at more than one object does this first.
    mutating func flush() {
        guard current.reference.classID.rawValue > 0 else { return }
        var object = CurrentObject.none
        swap(&object, &current)
        if object.isChanged { changes.objects.append(object.reference) }
        let position = Int(object.reference.classID.rawValue) - 1
        // A tombstone stays where links may dangle, and where a stored row must be hidden.
        let isKept = object.exists || graph.rows != nil || !schema[object.reference.classID].linkingColumns.isEmpty
        let fields = object.exists ? object.fields : nil
        if object.isInMemory {
            if isKept {
                graph.objects[position].modify(at: object.index) {
                    ($0.fields, $0.size, $0.erasedColumnCount) = (fields, object.size, object.erasedColumnCount)
                    if object.isChanged { $0.isStored = false }
                }
            } else {
                graph.objects[position].remove(at: object.index)
            }
        } else if object.isChanged ? isKept : object.rowBytes > 0 {
            // Objects that were only read are kept too, or they would be read again after each switch to another one.
            let entry = ObjectEntry(
                key: object.reference.key, isStored: !object.isChanged, erasedColumnCount: object.erasedColumnCount,
                fields: fields, size: object.size, stored: object.stored)
            graph.objects[position].insert(entry, at: object.index)
            if object.rowBytes > 0 { graph.reads.add(object.rowBytes) }
        }
        for target in danglingTargets { leaveTombstone(target) }
        danglingTargets.removeAll(keepingCapacity: true)
    }

    private mutating func leaveTombstone(_ object: ObjectReference) {
        let position = Int(object.classID.rawValue) - 1
        let found = graph.objects[position].find { $0.compare(object.key) }
        guard found.element == nil else { return }
        graph.objects[position].insert(ObjectEntry(key: object.key, fields: nil), at: found.index)
        changes.objects.append(object)
    }
}
