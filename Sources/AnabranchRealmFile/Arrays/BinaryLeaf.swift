import AnabranchCore

/// Binaries: in the small form in one blob, in the big form each in its own blob or in several.
struct BinaryLeaf: ColumnLeaf {
    private enum Form {
        case small(ends: ArrayNode, data: ArrayNode, nulls: ArrayNode?)
        /// The refs of the values.
        case big(ArrayNode, FileReading)
    }

    let count: Int
    private let form: Form

    init(_ node: ArrayNode, in reading: FileReading) throws(RealmFileError) {
        try node.requireRefs()
        if node.hasContext {
            for index in 0..<node.count where node.integer(at: index) != 0 {
                try Self.checkBlob(node.integer(at: index), in: reading)
            }
            (form, count) = (.big(node, reading), node.count)
            return
        }
        guard node.count == 2 || node.count == 3 else {
            throw .damaged(at: node.ref, "small binaries of \(node.count) parts")
        }
        if node.count == 2 { reading.report(notSeen: "small binaries without nulls") }
        let ends = try reading.integers(node.integer(at: 0)), data = try reading.array(node.integer(at: 1))
        let nulls = node.count == 3 ? try reading.integers(node.integer(at: 2)) : nil
        guard nulls == nil || nulls?.count == ends.count else {
            throw .damaged(at: node.ref, "\(ends.count) ends, and \(nulls?.count ?? 0) nulls")
        }
        var start: Int64 = 0
        for index in 0..<ends.count {
            let end = ends.integer(at: index)
            guard start <= end, end <= data.byteCount else {
                throw .damaged(at: node.ref, "a value from \(start) to \(end) of \(data.byteCount) bytes")
            }
            start = end
        }
        (form, count) = (.small(ends: ends, data: data, nulls: nulls), ends.count)
    }

    private static func checkBlob(_ ref: Int64, in reading: FileReading) throws(RealmFileError) {
        let node = try reading.array(ref)
        guard node.hasContext else {
            guard node.kind == .blob || node.count == 0 else { throw .damaged(at: node.ref, "no blob") }
            return
        }
        try node.requireRefs()
        reading.report(notSeen: "a binary in parts")
        for index in 0..<node.count {
            let part = try reading.array(node.integer(at: index))
            guard part.kind == .blob, !part.hasContext else { throw .damaged(at: part.ref, "no part of a blob") }
        }
    }

    /// Calls `body` with the parts of a value; most values have one part.
    ///
    /// - Returns: false for null.
    private func forEachPart(at index: Int, _ body: (UnsafeRawBufferPointer) -> Void) -> Bool {
        switch form {
        case .small(let ends, let data, let nulls):
            guard nulls?.integer(at: index) ?? 0 == 0 else { return false }
            body(data.bytes((index == 0 ? 0 : Int(ends.integer(at: index - 1)))..<Int(ends.integer(at: index))))
        case .big(let node, let reading):
            guard let blob = reading.knownArray(node.integer(at: index)) else { return false }
            guard blob.hasContext else {
                body(blob.content)
                break
            }
            for part in 0..<blob.count {
                if let node = reading.knownArray(blob.integer(at: part)) { body(node.content) }
            }
        }
        return true
    }

    /// The bytes that a value takes; nil for null.
    func byteCount(at index: Int) -> Int? {
        var count = 0
        return forEachPart(at: index) { count += $0.count } ? count : nil
    }

    /// A value without some bytes at its end; nil for null.
    func bytes(at index: Int, droppingLast dropped: Int = 0) -> [UInt8]? {
        var bytes: [UInt8] = []
        guard forEachPart(at: index, { bytes += $0 }) else { return nil }
        bytes.removeLast(min(dropped, bytes.count))
        return bytes
    }

    /// The last byte of a value; nil if it has none.
    func lastByte(at index: Int) -> UInt8? {
        var last: UInt8?
        _ = forEachPart(at: index) { last = $0.last ?? last }
        return last
    }

    func element(at index: Int) -> Element { .value(bytes(at: index).map(Payload.binary) ?? .null) }
}
