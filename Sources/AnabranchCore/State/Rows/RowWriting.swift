// Finds the rows that turn the stored state into another one (`Spec/State.md`, part D).

extension ObjectGraph {
    /// The rows that turn what is stored into this state, which takes them for written from then on: a state whose rows
    /// were not stored after all cannot be used any more. Nothing for a state that is in memory as a whole.
    ///
    /// - Parameter changes: Everything that was changed since the last call.
    /// - Throws: `ApplyError` with the code `unavailable` when stored rows cannot be read.
    public mutating func rowWrites(of changes: StateChanges) throws(ApplyError) -> RowWrites {
        try rowWrites(of: changes, noting: { _ in .nothing })
    }

    /// The same.
    ///
    /// - Parameter depth: What `RowWrites.noted` has of an object, as it was before and as it is now.
    package mutating func rowWrites(
        of changes: StateChanges, noting depth: (ObjectReference) -> RecordingDepth
    ) throws(ApplyError) -> RowWrites {
        var writes = RowWrites()
        guard rows != nil else { return writes }
        for number in changes.erasedClasses {
            writes.erasedClasses += [number, Backlink.classID(of: number)]
            try removeLinks(fromObjectsOf: number, &writes)
        }
        if changes.isSchemaChanged {
            var encoder = RowEncoder()
            encoder.schema(schema)
            writes.write(encoder.bytes, at: .schema)
        }
        let objects = changes.distinctObjects
        writes.rows.reserveCapacity(objects.count)
        for object in objects { try write(object, noting: depth(object), &writes) }
        unwrittenBytes = 0
        return writes
    }

    private mutating func write(
        _ object: ObjectReference, noting depth: RecordingDepth, _ writes: inout RowWrites
    ) throws(ApplyError) {
        let position = Int(object.classID.rawValue) - 1
        let found = objects[position].find { $0.compare(object.key) }
        let address = RowAddress(object)
        guard var entry = found.element, !entry.isStored, let source = source(of: address) else { return }
        if !depth.isNothing {
            writes.noted.append(try NotedChange(object, from: entry.stored?.fields, to: entry.fields, depth))
        }
        var writer = PartWriter(of: object, in: source, after: entry.stored?.lastPart ?? 0, partLimits)
        var encoder = RowEncoder()
        if let fields = entry.fields {
            let written = writer.write(fields, in: schema[object.classID])
            encoder.object(written, lastPart: writer.lastPart, erasedColumnCount: entry.erasedColumnCount)
            entry.fields = written
            // What stood in erased columns has gone.
            if entry.erasedColumnCount != schema.erasedColumnCount { entry.size = written.size }
        } else {
            encoder.tombstone()
        }
        let lastPart = writer.lastPart
        var removal = try writer.finish(replacing: entry.stored?.fields, &writes)
        if entry.fields == nil, schema[object.classID].linkingColumns.isEmpty {
            removal.parts.append(address.part)
        } else {
            writes.write(encoder.bytes, at: address)
        }
        if !removal.isEmpty { writes.removals.append(removal) }
        entry.stored = entry.fields.map {
            StoredObject($0, lastPart: lastPart, erasedColumnCount: entry.erasedColumnCount)
        }
        entry.isStored = true
        let written = entry
        objects[position].modify(at: found.index) { $0 = written }
    }

    /// The class is gone, and its stored objects go with it; what tells of their links is with the objects linked to.
    private func removeLinks(fromObjectsOf number: ClassID, _ writes: inout RowWrites) throws(ApplyError) {
        var stored = StoredObjects(of: number, in: self)
        while let (key, fields) = try stored.next() {
            let object = ObjectReference(classID: number, key: key)
            guard let source = source(of: RowAddress(object)) else { return }
            var removal = try PartWriter(of: object, in: source, after: 0, partLimits).finish(
                replacing: fields, &writes)
            removal.parts.removeAll()
            removal.links.removeAll { $0.target.classID == number }
            if !removal.isEmpty { writes.removals.append(removal) }
        }
    }
}
