extension ObjectGraph {
    /// Calls `body` with the value of a property in each object of its class, in the order of their keys. From a stored
    /// row only this value is read.
    ///
    /// - Throws: what `body` throws, or `ApplyError` with the outcome `unavailable` when objects cannot be read.
    package func forEachValue(of property: Property, _ body: (StateValue) throws -> Void) throws {
        let classID = property.owner
        guard schema.contains(classID) else { return }
        guard let rows, let slot = property.slot, objects[Int(classID.rawValue) - 1].isEmpty else {
            var objects = ObjectCursor(of: classID, in: self)
            while let object = try objects.next() { try body(try value(of: property, object)) }
            return
        }
        // A value that lies in its row asks for no part of an object.
        let source = PartSource(RowAddress(classID: classID, key: []), in: rows, reads: reads)
        try scan(rows, classID) { key, row in
            if let content = RowChecksum.content(of: row, classID, key, 0),
                let value = try? RowDecoder.value(in: slot, of: content.assumingMemoryBound(to: UInt8.self), source)
            {
                return try body(StateValue(value, at: property.target))
            }
            // What is large, or damaged.
            let address = RowAddress(classID: classID, key: Array(key))
            if let object = try storedObject(Array(row), at: address) { try body(try value(of: property, object)) }
        }
    }

    /// The value of one property; what is stored of the others is not read.
    private func value(
        of property: Property, _ object: (key: PrimaryKey, fields: Fields)
    ) throws(ApplyError) -> StateValue {
        let fields = rows == nil ? object.fields : try object.fields.readAll { $0 == property.slot }
        return StateObject(classID: property.owner, key: object.key, fields: fields).value(of: property)
    }

    /// Tells what the rows throw from what `body` throws.
    private func scan(
        _ rows: any ObjectRows, _ classID: ClassID,
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Void
    ) throws {
        var failure: (any Error)?
        do {
            try rows.forEachObject(of: classID) { key, row in
                do {
                    try body(key, row)
                } catch {
                    failure = error
                    throw error
                }
            }
        } catch {
            throw failure ?? ApplyError(reading: error)
        }
    }
}
