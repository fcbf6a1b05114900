/// One local transaction on a state: each action takes effect immediately and is recorded as instructions, in the order
/// and form of `Spec/State.md`, part C.
///
/// Handles of objects and collections belong to their transaction. An invalid action throws `ApplyError` with the
/// place, and leaves the state and the record as they were; of several values that one action writes, those before the
/// invalid one stay. Assigning through a subscript cannot throw: the first such error is thrown when the transaction
/// ends, which undoes all of it.
public final class WriteTransaction {
    /// The client file that writes; it marks the GlobalKeys that are made here.
    public let ident: ClientFileID
    var editor: GraphEditor
    var recorder = ChangesetRecorder()
    /// The digests of the elements of lists that were changed or erased, in the order of the record.
    private(set) var changedDigests: [UInt64] = []
    /// The elements in which something was changed.
    private(set) var changedElements: Set<ElementPlace> = []
    private var links = LinkIndex()
    /// The first error of an assignment.
    private var failure: ApplyError?
    private var isReadOnly: Bool
    /// True while objects are imported: a link may be written before its object is, and is not recorded again then.
    var linksMayDangle = false

    init(on graph: ObjectGraph, as ident: ClientFileID, isReadOnly: Bool = false, objectBytesMax: Int = .max) {
        self.ident = ident
        self.isReadOnly = isReadOnly
        editor = GraphEditor(graph)
        editor.objectBytesMax = objectBytesMax
        // Clients download what the server writes.
        if ident == .server { editor.refusals = .nullErasures }
    }

    // MARK: Schema (C2)

    /// Adds a class whose objects have a primary key; nothing if it exists.
    ///
    /// - Parameter type: Int, String, ObjectId or UUID.
    public func addClass(
        _ name: String, key field: String, _ type: PayloadType, isNullable: Bool = false, isAsymmetric: Bool = false
    ) throws(ApplyError) {
        guard [.int, .string, .objectID, .uuid].contains(type) else {
            throw located(.invalid("\(type) cannot be a primary key"), name)
        }
        let key = ClassState.KeyColumn(name: Array(field.utf8), type: type, isNullable: isNullable)
        let kind = isAsymmetric ? TableType.topLevelAsymmetric : .topLevel
        try addClass(ClassDeclaration(name: Array(name.utf8), kind: kind, key: key))
    }

    /// Adds a class whose objects have GlobalKeys; nothing if it exists.
    public func addClass(_ name: String) throws(ApplyError) {
        try addClass(ClassDeclaration(name: Array(name.utf8), kind: .topLevel))
    }

    /// Adds a class whose objects are embedded in others; nothing if it exists.
    public func addEmbeddedClass(_ name: String) throws(ApplyError) {
        try addClass(ClassDeclaration(name: Array(name.utf8), kind: .embedded))
    }

    func addClass(_ declared: ClassDeclaration) throws(ApplyError) {
        try checkWritable()
        do throws(ApplyError) {
            if try editor.addClass(declared) == .applied { recorder.addClass(declared) }
        } catch {
            throw located(error, declared.name)
        }
    }

    /// Removes a class with its objects. No other class may have, or have had, links to it.
    public func eraseClass(_ name: String) throws(ApplyError) {
        try checkWritable()
        do throws(ApplyError) {
            _ = try editor.eraseClass(Array(name.utf8))
        } catch {
            throw located(error, name)
        }
        recorder.eraseClass(Array(name.utf8))
    }

    /// Adds a column of scalars, or of Mixed with the type `null`; nothing if it exists.
    public func addColumn(
        _ field: String, _ type: PayloadType, isNullable: Bool = false, collection: CollectionType = .single,
        to className: String
    ) throws(ApplyError) {
        try addColumn(
            ColumnDeclaration(
                name: Array(field.utf8), type: type, isNullable: isNullable || type == .null, collection: collection),
            to: Array(className.utf8))
    }

    /// Adds a column of links to, or of embedded objects of, a class; nothing if it exists.
    public func addLink(
        _ field: String, to target: String, collection: CollectionType = .single, of className: String
    ) throws(ApplyError) {
        try addColumn(
            ColumnDeclaration(
                name: Array(field.utf8), type: .link, isNullable: collection == .single || collection == .dictionary,
                collection: collection, target: Array(target.utf8)),
            to: Array(className.utf8))
    }

    func addColumn(_ declared: ColumnDeclaration, to className: [UInt8]) throws(ApplyError) {
        try checkWritable()
        do throws(ApplyError) {
            guard declared.type != .link || declared.target != nil else { throw .invalid("a link needs a class") }
            if try editor.addColumn(declared, to: className) == .applied { recorder.addColumn(declared, to: className) }
        } catch {
            throw located(error, className, field: declared.name)
        }
    }

    /// Removes a column with all its values.
    public func eraseColumn(_ field: String, of className: String) throws(ApplyError) {
        try checkWritable()
        do throws(ApplyError) {
            _ = try editor.eraseColumn(Array(field.utf8), of: Array(className.utf8))
        } catch {
            throw located(error, Array(className.utf8), field: Array(field.utf8))
        }
        recorder.eraseColumn(Array(field.utf8), of: Array(className.utf8))
    }

    // MARK: Objects (C3)

    /// Creates an object, or returns the one that has the key.
    ///
    /// - Parameter values: Recorded in the order of the class's columns, even where the object existed.
    @discardableResult
    public func create(
        _ className: String, key: PrimaryKey, _ values: [String: Payload] = [:], areDefaults: Bool = false
    ) throws(ApplyError) -> DynamicObject {
        try create(Array(className.utf8), key, values, areDefaults: areDefaults)
    }

    /// Creates an object of a class without primary key.
    @discardableResult
    public func create(_ className: String, _ values: [String: Payload] = [:]) throws(ApplyError) -> DynamicObject {
        let number = try self.number(of: Array(className.utf8))
        let counter = editor.schema[number].nextGlobalKey
        let key = PrimaryKey.globalKey(GlobalKey(high: ident.rawValue, low: counter))
        let fields = try ordered(values, of: number, key)
        let object = try create(number, key).object
        // Before a value is refused: the object is there even so, and another one must not have its key.
        editor.graph.schema[number].nextGlobalKey = counter + 1
        editor.changes.isSchemaChanged = true
        for (field, value) in fields { try object.set(field, to: value) }
        return object
    }

    @discardableResult
    func create(
        _ className: [UInt8], _ key: PrimaryKey, _ values: [String: Payload], areDefaults: Bool
    ) throws(ApplyError) -> DynamicObject {
        let number = try number(of: className)
        let fields = try ordered(values, of: number, key)
        let object = try create(number, key).object
        for (field, value) in fields { try object.set(field, to: value, isDefault: areDefaults) }
        return object
    }

    /// The values of an object, which need not exist, in the order of the columns.
    private func ordered(
        _ values: [String: Payload], of classID: ClassID, _ key: PrimaryKey
    ) throws(ApplyError) -> [(field: String, value: Payload)] {
        let object = DynamicObject(transaction: self, reference: ObjectReference(classID: classID, key: key.normalised))
        let slots = try values.map { value throws(ApplyError) in
            (slot: try object.location(of: value.key).place.slot, value: value)
        }
        return slots.sorted { $0.slot < $1.slot }.map { ($0.value.key, $0.value.value) }
    }

    /// Creates an object, or finds the one that has the key.
    package func create(
        _ classID: ClassID, _ key: PrimaryKey
    ) throws(ApplyError) -> (object: DynamicObject, isNew: Bool) {
        try checkWritable()
        let reference = ObjectReference(classID: classID, key: key.normalised)
        let className = editor.schema[classID].name
        do throws(ApplyError) {
            try editor.checkKey(reference.key, of: classID)
            let mayBeLinked = try editor.isTombstone(reference)
            let isNew = try editor.createObject(reference) == .applied
            if isNew {
                recorder.createObject(className, key)
                if mayBeLinked, !linksMayDangle { try recordRevival(of: reference) }
            }
            return (DynamicObject(transaction: self, reference: reference), isNew)
        } catch {
            throw located(error, className, key: key)
        }
    }

    /// The state with all changes made so far.
    package var state: ObjectGraph {
        editor.flush()
        return editor.graph
    }

    /// The schema stamp of the state with all changes made so far.
    package var schemaStamp: SchemaStamp { editor.schema.stamp }

    /// An object of a class that exists; nil if the object does not.
    package func object(_ reference: ObjectReference) throws(ApplyError) -> DynamicObject? {
        try editor.exists(reference) ? DynamicObject(transaction: self, reference: reference) : nil
    }

    /// The changes made so far.
    package var changes: StateChanges {
        editor.flush()
        return editor.changes
    }

    /// True once something was recorded: the transaction becomes an entry of the log.
    package var hasRecorded: Bool { !recorder.bytes.isEmpty }

    /// The names of the classes, in the order in which they were added.
    public var classNames: [String] {
        let schema = editor.schema
        return schema.present.map { String(decoding: schema[$0].name, as: UTF8.self) }
    }

    /// The object with a key; nil if there is none.
    public func object(_ className: String, key: PrimaryKey) throws(ApplyError) -> DynamicObject? {
        let reference = ObjectReference(classID: try number(of: Array(className.utf8)), key: key.normalised)
        return try editor.exists(reference) ? DynamicObject(transaction: self, reference: reference) : nil
    }

    /// The objects of a class in the order of their keys.
    public func objects(_ className: String) throws(ApplyError) -> [DynamicObject] {
        let number = try number(of: Array(className.utf8))
        editor.flush()
        var objects: [DynamicObject] = []
        try editor.graph.forEachObject(of: number) { key, _ throws(ApplyError) in
            let reference = ObjectReference(classID: number, key: key)
            objects.append(DynamicObject(transaction: self, reference: reference))
        }
        return objects
    }

    /// Deletes an object; links to it are removed first. An embedded object is taken out of its owner.
    public func delete(_ object: DynamicObject) throws(ApplyError) {
        try checkWritable()
        if let location = object.embedding { return try deleteEmbedded(at: location) }
        let reference = object.reference
        guard try editor.exists(reference) else { throw located(.invalid("no such object"), reference) }
        if editor.schema[reference.classID].kind != .topLevelAsymmetric {
            try removeLinks(to: reference) { _ in true }
            recorder.eraseObject(editor.schema[reference.classID].name, reference.key)
        }
        _ = try editor.eraseObject(reference)
    }

    /// Deletes all objects of a class. Links between them need no removal.
    public func deleteAll(_ className: String) throws(ApplyError) {
        try checkWritable()
        let objects = try objects(className)
        guard let number = objects.first?.reference.classID else { return }
        let isRecorded = editor.schema[number].kind != .topLevelAsymmetric
        for object in objects where isRecorded { try removeLinks(to: object.reference) { $0.owner != number } }
        for object in objects {
            if isRecorded { recorder.eraseObject(editor.schema[number].name, object.reference.key) }
            _ = try editor.eraseObject(object.reference)
        }
    }

    private func deleteEmbedded(at location: Location) throws(ApplyError) {
        guard case .index? = location.path.last else { return try perform(.update(.null), at: location) }
        try perform(.erase(priorSize: try count(at: location.container)), at: location)
    }

    // MARK: Links to objects (C3)

    /// Removes the links to an object in columns that are `included`, column by column and owner by owner.
    private func removeLinks(
        to target: ObjectReference, _ included: (Schema.LinkingColumn) -> Bool
    ) throws(ApplyError) {
        for search in try links.searches(for: target, in: &editor) where included(search.column) {
            for owner in search.owners {
                var places: [LinkSearch.Found]
                repeat {
                    places = try search.places(of: owner, limit: Self.linksAtATime, in: editor)
                    try removeLinks(to: target, at: places)
                } while places.count == Self.linksAtATime
            }
        }
    }

    /// Bounds the memory for the places of links, of which an object can have millions.
    private static let linksAtATime = 16_384

    /// - Parameter places: in order, as they all were before the first one is removed.
    private func removeLinks(to target: ObjectReference, at places: [LinkSearch.Found]) throws(ApplyError) {
        var erasedCounts: [ElementPlace: Int] = [:]
        for found in places {
            // Elements that were erased stood before the place.
            var location = found.location, container = found.location
            while let step = container.path.popLast() {
                guard case .index(let index) = step else { continue }
                location.path[container.path.count] = .index(index - erasedCounts[ElementPlace(container), default: 0])
            }
            switch found.kind {
            case .value: try perform(.update(.null), at: location)
            case .element(let count):
                let list = ElementPlace(found.location.container)
                try perform(.erase(priorSize: count - erasedCounts[list, default: 0]), at: location)
                erasedCounts[list, default: 0] += 1
            case .setElement: try perform(.setErase(payload(of: target)), at: location)
            }
        }
    }

    /// Records again the links that a new object has brought back to life: redundant, but expected.
    private func recordRevival(of target: ObjectReference) throws(ApplyError) {
        let link = payload(of: target)
        for search in try links.searches(for: target, in: &editor) {
            for owner in search.owners {
                for found in try search.places(of: owner, in: editor) {
                    switch found.kind {
                    case .value: try perform(.update(link), at: found.location)
                    case .element(let count): try perform(.update(link), at: found.location, priorSize: count)
                    case .setElement:
                        try perform(.setErase(link), at: found.location)
                        try perform(.setInsert(link), at: found.location)
                    }
                }
            }
        }
    }

    // MARK: Carrying out and recording

    /// Carries out an edit and records it, even one without effect: callers decide what is not recorded.
    func perform(
        _ edit: Edit, at location: Location, isDefault: Bool = false, priorSize: Int? = nil
    ) throws(ApplyError) {
        try checkWritable()
        var changed: (digests: [UInt64], places: [ElementPlace]) = ([], [])
        do throws(ApplyError) {
            changed = try elements(changedBy: edit, at: location)
            if case .link(let className, let key)? = edit.payload {
                try recordLink(className, key, from: location)
            }
            _ = try editor.edit(location.object, location.field, location.path[...], edit)
        } catch {
            // A failed read may have left half of an edit behind.
            if error.code == .unavailable { failure = failure ?? error }
            throw located(error, location)
        }
        recorder.edit(edit, at: target(of: location), isDefault: isDefault, priorSize: priorSize)
        changedDigests += changed.digests
        changedElements.formUnion(changed.places)
    }

    /// Empties a collection: nothing if it is empty, unless it is nested in a Mixed.
    func clear(_ location: Location, _ kind: CollectionType) throws(ApplyError) {
        let count = try count(at: location)
        if count > 0 || location.place.collection == .single { try perform(.clear(kind), at: location) }
    }

    /// A link that is written here must lead to an object; one that arrives in a changeset need not.
    private func recordLink(_ className: [UInt8], _ key: PrimaryKey, from owner: Location) throws(ApplyError) {
        guard let classID = editor.schema.number(of: className) else {
            throw .invalid("no such class: \(String(excerptOf: className))")
        }
        let target = ObjectReference(classID: classID, key: key.normalised)
        if !linksMayDangle {
            guard try editor.exists(target) else { throw .invalid("the object linked to does not exist") }
        }
        links.record(target, from: owner.object, slot: owner.field.slot)
    }

    private func target(of location: Location) -> ChangesetRecorder.Target {
        let state = editor.schema[location.object.classID]
        return ChangesetRecorder.Target(
            className: state.name, key: location.object.key, field: state.columns[location.field.slot]?.name ?? [],
            path: location.path, embeddedClass: location.embeddedClass.map { editor.schema[$0].name })
    }

    func checkWritable() throws(ApplyError) {
        if isReadOnly { throw .invalid("the transaction does not write, or has ended") }
    }

    // MARK: Ending

    /// Keeps the first error of assignments.
    func assign(_ body: () throws(ApplyError) -> Void) {
        do { try body() } catch { failure = failure ?? error }
    }

    /// Ends the transaction: its handles write no more.
    func finish() throws(ApplyError) -> (graph: ObjectGraph, changes: StateChanges) {
        isReadOnly = true
        if let failure { throw failure }
        return editor.finish()
    }
}
