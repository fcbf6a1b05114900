package import AnabranchCore

extension DocumentValue {
    /// Reads a line of MongoDB's extended JSON: one JSON text (RFC 8259), with each name once in an object.
    ///
    /// - Throws: `LineError` with the column at which it is no such text.
    package init(line: [UInt8]) throws(LineError) {
        var reader = ExtendedJSONReader(bytes: line)
        self = try reader.wholeLine()
    }
}

/// Reads values whose numbers keep all their digits.
private struct ExtendedJSONReader {
    let bytes: [UInt8]
    var offset = 0

    mutating func wholeLine() throws(LineError) -> DocumentValue {
        let value = try value(depth: 0)
        skipSpace()
        guard offset == bytes.count else { throw error("something follows") }
        return value
    }

    private mutating func value(depth: Int) throws(LineError) -> DocumentValue {
        skipSpace()
        switch peek {
        case UInt8(ascii: "{"): return try object(depth: depth + 1)
        case UInt8(ascii: "["): return .array(try array(depth: depth + 1))
        case UInt8(ascii: "\""): return .scalar(.string(try string()))
        case UInt8(ascii: "t"): return .scalar(.bool(try word("true", true)))
        case UInt8(ascii: "f"): return .scalar(.bool(try word("false", false)))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return .number(try number())
        }
    }

    private mutating func object(depth: Int) throws(LineError) -> DocumentValue {
        let start = offset
        try enter(depth)
        var members: [(name: JSONName, value: DocumentValue)] = []
        if take("}") { return .document([:]) }
        repeat {
            skipSpace()
            let name = JSONName(String(decoding: try string(), as: UTF8.self))
            guard take(":") else { throw error("no colon") }
            members.append((name, try value(depth: depth)))
        } while take(",")
        guard take("}") else { throw error("an object does not end") }
        do { return try DocumentValue(members: members) } catch { throw self.error(error.reason, at: start) }
    }

    private mutating func array(depth: Int) throws(LineError) -> [DocumentValue] {
        try enter(depth)
        var values: [DocumentValue] = []
        if take("]") { return values }
        repeat { values.append(try value(depth: depth)) } while take(",")
        guard take("]") else { throw error("an array does not end") }
        return values
    }

    private mutating func enter(_ depth: Int) throws(LineError) {
        guard depth <= ExportLine.depthMax else { throw error("too deep") }
        offset += 1
    }

    private mutating func word<Value>(_ word: StaticString, _ value: Value) throws(LineError) -> Value {
        let end = offset + word.utf8CodeUnitCount
        let isThere = word.withUTF8Buffer { end <= bytes.count && bytes[offset..<end].elementsEqual($0) }
        guard isThere else { throw error("an unknown word") }
        offset = end
        return value
    }

    // MARK: Numbers and strings

    private mutating func number() throws(LineError) -> [UInt8] {
        let start = offset
        if peek == UInt8(ascii: "-") { offset += 1 }
        let first = peek
        guard takeDigits() == 1 || first != UInt8(ascii: "0") else { throw error("a leading zero", at: start) }
        guard offset > start, bytes[offset - 1] != UInt8(ascii: "-") else { throw error("a value is missing") }
        if peek == UInt8(ascii: ".") {
            offset += 1
            guard takeDigits() > 0 else { throw error("no digit") }
        }
        if let mark = peek, mark | 0x20 == UInt8(ascii: "e") {
            offset += 1
            if peek == UInt8(ascii: "-") || peek == UInt8(ascii: "+") { offset += 1 }
            guard takeDigits() > 0 else { throw error("no digit") }
        }
        return Array(bytes[start..<offset])
    }

    private mutating func takeDigits() -> Int {
        let start = offset
        while let byte = peek, 0x30...0x39 ~= byte { offset += 1 }
        return offset - start
    }

    private mutating func string() throws(LineError) -> [UInt8] {
        guard peek == UInt8(ascii: "\"") else { throw error("a string is missing") }
        let start = offset
        offset += 1
        var text: [UInt8] = []
        var runStart = offset
        while let byte = peek {
            switch byte {
            case UInt8(ascii: "\""):
                text += bytes[runStart..<offset]
                offset += 1
                guard String(validating: text, as: UTF8.self) != nil else { throw error("not UTF-8", at: start) }
                return text
            case UInt8(ascii: "\\"):
                text += bytes[runStart..<offset]
                offset += 1
                text += try escape()
                runStart = offset
            case 0..<0x20: throw error("a control character")
            default: offset += 1
            }
        }
        throw error("a string does not end", at: start)
    }

    private mutating func escape() throws(LineError) -> [UInt8] {
        guard let byte = peek else { throw error("half an escape") }
        offset += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [byte]
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "f"): return [0x0c]
        case UInt8(ascii: "n"): return [0x0a]
        case UInt8(ascii: "r"): return [0x0d]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "u"): return try unicodeEscape()
        default: throw error("an unknown escape")
        }
    }

    private mutating func unicodeEscape() throws(LineError) -> [UInt8] {
        var value = try fourDigits()
        if 0xd800...0xdbff ~= value, bytes[offset...].starts(with: "\\u".utf8) {
            offset += 2
            let second = try fourDigits()
            guard 0xdc00...0xdfff ~= second else { throw error("half a character") }
            value = 0x10000 + (value - 0xd800) << 10 + (second - 0xdc00)
        }
        guard let scalar = Unicode.Scalar(value) else { throw error("half a character") }
        return Array(String(scalar).utf8)
    }

    private mutating func fourDigits() throws(LineError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let digit = peek.flatMap(Hex.value) else { throw error("no hexadecimal digit") }
            offset += 1
            value = value << 4 | UInt32(digit)
        }
        return value
    }

    // MARK: Bytes

    private var peek: UInt8? { offset < bytes.count ? bytes[offset] : nil }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || 0x09...0x0a ~= byte || byte == 0x0d { offset += 1 }
    }

    /// Takes one character, and the space before it, if it is there.
    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        skipSpace()
        guard let byte = peek, byte == UInt8(ascii: character) else { return false }
        offset += 1
        return true
    }

    private func error(_ reason: String, at place: Int? = nil) -> LineError {
        LineError("not JSON at column \((place ?? offset) + 1): \(reason)")
    }
}
