/// The changesets that make some objects what they are in a state, whatever they were before: each of them is erased,
/// and created again with all its contents if the state has it. They are made one by one, like `BootstrapChangesets`.
package struct ObjectChangesets: Sendable {
    private let graph: ObjectGraph
    /// The schema that names the classes.
    private let schema: Schema
    private let columns: CanonicalColumns
    private let endBytes: Int
    /// The objects that come later, the last of them first.
    private var objects: [ObjectReference]
    /// The number of them that are not only erased: the last ones.
    private let madeCount: Int
    /// The fields of the next ones, read together, the last of them first; nil for those that the state does not have.
    private var read: [Fields?] = []
    private var object: RecordedObject?
    private var recorder = ChangesetRecorder()

    /// - Parameters:
    ///   - objects: The objects, in the order in which they are made; of classes that the state has.
    ///   - absent: Other objects, which come before them and are only erased.
    ///   - graph: The state. Nothing that is read of it is kept.
    ///   - later: A later state, which may have more classes; nil if the state itself has all of them.
    ///   - fields: The properties that are put back besides the primary key, by the names of their classes; nil for
    ///     all.
    ///   - endBytes: A changeset ends with the instruction that brings it to this many bytes. A long value is never
    ///     divided.
    package init(
        of objects: [ObjectReference], after absent: [ObjectReference] = [], in graph: ObjectGraph,
        before later: ObjectGraph? = nil, only fields: [[UInt8]: Set<[UInt8]>]? = nil, endingAt endBytes: Int = .max
    ) {
        self.graph = graph
        schema = (later ?? graph).schema
        self.endBytes = endBytes
        self.objects = (absent + objects).reversed()
        madeCount = objects.count
        columns = CanonicalColumns(of: graph.schema, only: fields)
    }

    /// The next changeset; nil after the last one.
    /// - Throws: `ApplyError` with the code `unavailable` when objects cannot be read.
    package mutating func next() throws(ApplyError) -> [UInt8]? {
        repeat { guard try recordNext() else { break } } while recorder.bytes.count < endBytes
        let changeset = recorder.bytes
        recorder = ChangesetRecorder()
        return changeset.isEmpty ? nil : changeset
    }

    /// - Returns: false if nothing is left.
    private mutating func recordNext() throws(ApplyError) -> Bool {
        if try object?.recordNext(to: &recorder) == true { return true }
        object = nil
        let isMade = objects.count <= madeCount
        if isMade, read.isEmpty { read = try fieldsOfNext() }
        guard let next = objects.popLast() else { return false }
        let className = schema[next.classID].name
        recorder.eraseObject(className, next.key)
        if isMade, let found = read.popLast(), let fields = found {
            recorder.createObject(className, next.key)
            object = RecordedObject(next, fields, in: graph.schema, columns)
        }
        return true
    }

    /// Reads the next objects of one class together, as far as their keys ascend.
    private func fieldsOfNext() throws(ApplyError) -> [Fields?] {
        guard let first = objects.last else { return [] }
        guard graph.schema.contains(first.classID) else { return [nil] }
        var keys = [first.key]
        for next in objects.suffix(StoredObjects.batchCount).dropLast().reversed() {
            guard next.classID == first.classID, keys[keys.count - 1] < next.key else { break }
            keys.append(next.key)
        }
        return try graph.fields(of: first.classID, keys).reversed()
    }
}
