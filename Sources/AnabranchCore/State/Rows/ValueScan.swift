/// One property of all objects of a class.
extension ObjectGraph {
    /// Calls `body` with what a property of each object of a class holds, in the order of their keys. A value that lies
    /// in a stored row is read there, and nothing else of the row is.
    ///
    /// - Throws: what `body` throws, or `ApplyError` with the outcome `unavailable` when objects cannot be read.
    package func forEachValue(
        of property: Property, in classID: ClassID, _ body: (StateValue) throws -> Void
    ) throws {
        guard schema.contains(classID) else { return }
        guard let rows, let slot = property.slot, objects[Int(classID.rawValue) - 1].isEmpty else {
            return try forEachObject(of: classID) { object in try body(object.value(of: property)) }
        }
        let source = PartSource(RowAddress(classID: classID, key: []), in: rows, reads: reads)
        try scan(rows, classID) { key, row in
            if let content = RowChecksum.content(of: row, classID, key, 0),
                let value = try? RowDecoder.value(in: slot, of: content.assumingMemoryBound(to: UInt8.self), source)
            {
                return try body(StateValue(value, at: property.target))
            }
            // What is large, or damaged.
            let address = RowAddress(classID: classID, key: Array(key))
            if let (key, fields) = try storedObject(Array(row), at: address) {
                try body(StateObject(classID: classID, key: key, fields: try fields.readAll()).value(of: property))
            }
        }
    }

    private func forEachObject(of classID: ClassID, _ body: (StateObject) throws -> Void) throws {
        var objects = ObjectCursor(of: classID, in: self)
        while let (key, fields) = try objects.next() {
            try body(StateObject(classID: classID, key: key, fields: try fields.readAll()))
        }
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
