package import AnabranchCore

extension DocumentValue {
    /// Reads a document of BSON as mongodump writes it.
    ///
    /// - Throws: `LineError` with the byte at which it is no such document.
    package init(bson bytes: [UInt8]) throws(LineError) {
        var reader = BSONReader(bytes: bytes[...])
        self = .document(try reader.document(depth: 0))
        guard reader.bytes.isEmpty else { throw reader.error("something follows") }
    }
}

/// Reads values of BSON (bsonspec.org, version 1.1). Each length is checked before anything is taken.
private struct BSONReader {
    /// The bytes that were not read yet.
    var bytes: ArraySlice<UInt8>

    mutating func document(depth: Int) throws(LineError) -> [JSONName: DocumentValue] {
        var members: [JSONName: DocumentValue] = [:]
        try elements(depth: depth) { name, value, reader throws(LineError) in
            guard members.updateValue(value, forKey: JSONName(name)) == nil else {
                throw reader.error("the name \(String(excerptOf: Array(name.utf8))) is there twice")
            }
        }
        return members
    }

    private mutating func elements(
        depth: Int, _ body: (String, DocumentValue, BSONReader) throws(LineError) -> Void
    ) throws(LineError) {
        guard depth <= ExportLine.depthMax else { throw error("too deep") }
        var inner = BSONReader(bytes: try take(try length(atLeast: 5) - 4))
        while true {
            let type = try inner.byte()
            guard type != 0 else { break }
            let name = try inner.name()
            try body(name, try inner.value(type, depth: depth + 1), inner)
        }
        guard inner.bytes.isEmpty else { throw inner.error("something follows the end of a document") }
    }

    private mutating func value(_ type: UInt8, depth: Int) throws(LineError) -> DocumentValue {
        switch type {
        case 0x01: return .scalar(.double(Double(bitPattern: try integer())))
        case 0x02, 0x0E: return .scalar(.string(try string()))
        case 0x03: return .document(try document(depth: depth))
        case 0x04:
            var values: [DocumentValue] = []
            try elements(depth: depth) { _, value, _ in values.append(value) }
            return .array(values)
        case 0x05: return .scalar(try binary())
        case 0x06, 0x0A: return .null
        case 0x07:
            guard let value = ObjectID(Array(try take(12))) else { throw error("no ObjectId") }
            return .scalar(.objectID(value))
        case 0x08: return .scalar(.bool(try bool()))
        case 0x09: return .scalar(.date(milliseconds: Int64(bitPattern: try integer())))
        case 0x10: return .scalar(.int(Int64(Int32(bitPattern: try integer()))))
        case 0x12: return .scalar(.int(Int64(bitPattern: try integer())))
        case 0x13:
            let low: UInt64 = try integer()
            return .scalar(.decimal(Decimal128(low: low, high: try integer())))
        default: return .unsupported(try skip(type))
        }
    }

    /// Skips a value of a type that no field can hold.
    private mutating func skip(_ type: UInt8) throws(LineError) -> String {
        switch type {
        case 0x0B:
            _ = (try name(), try name())
            return "$regularExpression"
        case 0x0C:
            _ = (try string(), try take(12))
            return "$dbPointer"
        case 0x0D: _ = try string()
        case 0x0F: _ = try take(try length(atLeast: 14) - 4)
        case 0x11:
            _ = try take(8)
            return "$timestamp"
        case 0x7F: return "$maxKey"
        case 0xFF: return "$minKey"
        default: throw error("a value of the unknown type \(type)")
        }
        return "$code"
    }

    private mutating func binary() throws(LineError) -> Payload {
        var count = try length(atLeast: 0)
        let subtype = try byte()
        if subtype == 2 {
            let inner = try length(atLeast: 0)
            guard inner == count - 4 else { throw error("a binary with two lengths") }
            count = inner
        }
        guard let value = Payload(binary: Array(try take(count)), subtype: subtype) else {
            throw error("a UUID of \(count) bytes")
        }
        return value
    }

    // MARK: Bytes

    private mutating func take(_ count: Int) throws(LineError) -> ArraySlice<UInt8> {
        guard count <= bytes.count else { throw error("\(count) bytes where \(bytes.count) are left") }
        defer { bytes = bytes.dropFirst(count) }
        return bytes.prefix(count)
    }

    private mutating func byte() throws(LineError) -> UInt8 {
        guard let byte = bytes.popFirst() else { throw error("the end") }
        return byte
    }

    private mutating func bool() throws(LineError) -> Bool {
        switch try byte() {
        case 0: return false
        case 1: return true
        default: throw error("neither true nor false")
        }
    }

    private mutating func integer<Number: FixedWidthInteger & UnsignedInteger>() throws(LineError) -> Number {
        try take(Number.bitWidth / 8).reversed().reduce(0) { $0 << 8 | Number($1) }
    }

    private mutating func length(atLeast least: Int) throws(LineError) -> Int {
        let length = Int(Int32(bitPattern: try integer()))
        guard length >= least else { throw error("a length of \(length)") }
        return length
    }

    private mutating func name() throws(LineError) -> String {
        guard let end = bytes.firstIndex(of: 0) else { throw error("a name does not end") }
        defer { bytes = bytes[(end + 1)...] }
        guard let name = String(validating: bytes[..<end], as: UTF8.self) else { throw error("not UTF-8") }
        return name
    }

    private mutating func string() throws(LineError) -> [UInt8] {
        let text = try take(try length(atLeast: 1))
        guard text.last == 0, String(validating: text.dropLast(), as: UTF8.self) != nil else {
            throw error("no string of UTF-8")
        }
        return Array(text.dropLast())
    }

    func error(_ reason: String) -> LineError { LineError("no BSON at byte \(bytes.startIndex): \(reason)") }
}
