/// The changesets of a bootstrap generation, which build a state from nothing (`Spec/BoundedHistory.md`, section 1).
/// They are made one by one, so that a caller can store each before the next is made.
///
/// Equal states have equal changesets, whatever changes led to them. The state is read object by object, and of an
/// object one part after another; nothing that was read is kept. If the state reads rows, the rows must not change
/// meanwhile.
package struct BootstrapChangesets: Sendable {
    /// The size, in bytes, at about which a changeset ends unless the caller says otherwise.
    package static let usualBytes = 128 << 10

    private enum Declaration {
        case addTable(ClassID)
        case addColumn(Column)
    }

    private let graph: ObjectGraph
    private let endBytes: Int
    private let columns: CanonicalColumns
    /// The declarations still to be recorded, the last of them first.
    private var declarations: [Declaration]
    /// The classes whose objects come later, the last of them first.
    private var classes: [ClassID]
    private var objects: (classID: ClassID, cursor: ObjectCursor)?
    private var object: RecordedObject?
    private var recorder = ChangesetRecorder()
    private var failure: ApplyError?

    /// - Parameters:
    ///   - graph: The state. Objects of asymmetric classes do not belong to it.
    ///   - endBytes: A changeset ends with the instruction that brings it to this many bytes; with 1 or less, each
    ///     instruction is a changeset. A long value is never divided.
    ///   - hasObjects: False for changesets that make the classes and columns alone.
    package init(
        of graph: ObjectGraph, endingAt endBytes: Int = BootstrapChangesets.usualBytes, hasObjects: Bool = true
    ) {
        self.graph = graph
        self.endBytes = endBytes
        let schema = graph.schema, columns = CanonicalColumns(of: schema)
        self.columns = columns
        let ordered = schema.present.sorted { schema[$0].name.compare(schema[$1].name) < 0 }
        let addColumns = ordered.flatMap { columns[$0].map(Declaration.addColumn) }
        declarations = (ordered.map(Declaration.addTable) + addColumns).reversed()
        classes = hasObjects ? ordered.filter { schema[$0].kind == .topLevel }.reversed() : []
    }

    /// The next changeset, in the format of `Spec/Changeset.md`; nil after the last one. A state without classes has
    /// none.
    ///
    /// - Throws: `ApplyError` with the code `unavailable` when objects cannot be read. Each further call throws it
    ///   again, so that an incomplete sequence is never taken for a complete one.
    package mutating func next() throws(ApplyError) -> [UInt8]? {
        if let failure { throw failure }
        do throws(ApplyError) {
            repeat { guard try recordNext() else { break } } while recorder.bytes.count < endBytes
        } catch {
            failure = error
            throw error
        }
        let changeset = recorder.bytes
        recorder = ChangesetRecorder()
        return changeset.isEmpty ? nil : changeset
    }

    /// Records one instruction.
    /// - Returns: false if none is left.
    private mutating func recordNext() throws(ApplyError) -> Bool {
        if let declaration = declarations.popLast() {
            record(declaration)
            return true
        }
        while true {
            if try object?.recordNext(to: &recorder) == true { return true }
            object = nil
            if let classID = objects?.classID, let (key, fields) = try objects?.cursor.next() {
                let object = RecordedObject(
                    ObjectReference(classID: classID, key: key), fields, in: graph.schema, columns)
                recorder.createObject(object.className, key)
                self.object = object
                return true
            }
            guard let classID = classes.popLast() else { return false }
            objects = (classID, ObjectCursor(of: classID, in: graph))
        }
    }

    private mutating func record(_ declaration: Declaration) {
        switch declaration {
        case .addTable(let classID):
            let state = graph.schema[classID]
            recorder.addClass(ClassDeclaration(name: state.name, kind: state.kind, key: state.key))
        case .addColumn(let column):
            let place = column.place
            let target = place.type == .link ? graph.schema[place.target].name : nil
            recorder.addColumn(
                ColumnDeclaration(
                    name: column.name, type: place.type, isNullable: place.isNullable, collection: place.collection,
                    target: target),
                to: graph.schema[place.owner].name)
        }
    }
}

/// An object of a state that is recorded, edit by edit.
struct RecordedObject: Sendable {
    let className: [UInt8]
    private let key: PrimaryKey
    private var contents: ObjectContents

    init(_ object: ObjectReference, _ fields: Fields, in schema: Schema, _ columns: CanonicalColumns) {
        className = schema[object.classID].name
        key = object.key
        contents = ObjectContents(of: fields, in: object.classID, schema, columns)
    }

    /// Records the next edit of what has been created.
    /// - Returns: false if there is none.
    mutating func recordNext(to recorder: inout ChangesetRecorder) throws(ApplyError) -> Bool {
        guard let edit = try contents.next() else { return false }
        recorder.edit(
            edit,
            at: ChangesetRecorder.Target(
                className: className, key: key, field: contents.field, path: contents.path))
        return true
    }
}

/// The columns of each class by their names: an order that does not depend on when they were added.
struct CanonicalColumns: Sendable {
    private var columns: [ClassID: [Column]] = [:]

    /// - Parameter fields: the names of the columns to include, by the names of their top-level classes; nil for all.
    init(of schema: Schema, only fields: [[UInt8]: Set<[UInt8]>]? = nil) {
        for number in schema.present {
            let state = schema[number]
            var present = state.columns.compactMap { $0 }
            if let fields, state.kind != .embedded {
                let wanted = fields[state.name] ?? []
                present.removeAll { !wanted.contains($0.name) }
            }
            columns[number] = present.sorted { $0.name.compare($1.name) < 0 }
        }
    }

    subscript(number: ClassID) -> [Column] { columns[number] ?? [] }
}
