/// The place at which a text is not JSON, and the reason.
package struct JSONError: Error, Equatable, Sendable {
    package let offset: Int
    package let reason: String
}

extension JSONValue {
    /// The number of arrays and objects that may stand within each other by default.
    package static let depthMax = 64

    /// Parses a whole text (RFC 8259). Stricter than most: an object has each name once, because programs that take the
    /// first and programs that take the last would otherwise read different things from the same signed text.
    /// - Parameters:
    ///   - depthMax: how many arrays and objects may stand within each other.
    ///   - valuesMax: how many values there may be: a small object takes 50 times as much memory as its text.
    ///   - replacesHalves: true to read an escaped half of a surrogate pair as U+FFFD, as which browsers send such a
    ///     text otherwise.
    package init(
        parsing bytes: some Collection<UInt8>, depthMax: Int = JSONValue.depthMax, valuesMax: Int = .max,
        replacesHalves: Bool = false
    ) throws(JSONError) {
        var parser = JSONParser(
            bytes: Array(bytes), depthMax: depthMax, replacesHalves: replacesHalves, valuesLeft: valuesMax)
        self = try parser.wholeText()
    }
}

private struct JSONParser {
    let bytes: [UInt8]
    let depthMax: Int
    let replacesHalves: Bool
    var valuesLeft: Int
    var offset = 0

    mutating func wholeText() throws(JSONError) -> JSONValue {
        let value = try value(depth: 0)
        skipSpace()
        guard offset == bytes.count else { throw error("something follows") }
        return value
    }

    private mutating func value(depth: Int) throws(JSONError) -> JSONValue {
        skipSpace()
        guard valuesLeft > 0 else { throw error("too many values") }
        valuesLeft -= 1
        switch peek {
        case UInt8(ascii: "{"): return try object(depth: depth + 1)
        case UInt8(ascii: "["): return try array(depth: depth + 1)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    private mutating func object(depth: Int) throws(JSONError) -> JSONValue {
        try enter(depth)
        var members: [JSONName: JSONValue] = [:]
        if take("}") { return .object(members) }
        repeat {
            skipSpace()
            let name = JSONName(try string())
            guard take(":") else { throw error("no colon") }
            let old = members.updateValue(try value(depth: depth), forKey: name)
            guard old == nil else { throw error("a name twice") }
        } while take(",")
        guard take("}") else { throw error("an object does not end") }
        return .object(members)
    }

    private mutating func array(depth: Int) throws(JSONError) -> JSONValue {
        try enter(depth)
        var values: [JSONValue] = []
        if take("]") { return .array(values) }
        repeat { values.append(try value(depth: depth)) } while take(",")
        guard take("]") else { throw error("an array does not end") }
        return .array(values)
    }

    private mutating func enter(_ depth: Int) throws(JSONError) {
        guard depth <= depthMax else { throw error("too deep") }
        offset += 1
    }

    private mutating func word(_ word: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
        let end = offset + word.utf8CodeUnitCount
        let isThere = word.withUTF8Buffer { end <= bytes.count && bytes[offset..<end].elementsEqual($0) }
        guard isThere else { throw error("an unknown word") }
        offset = end
        return value
    }

    // MARK: Numbers

    private mutating func number() throws(JSONError) -> JSONValue {
        let start = offset
        if peek == UInt8(ascii: "-") { offset += 1 }
        let integerStart = offset
        try digits()
        guard bytes[integerStart] != UInt8(ascii: "0") || offset == integerStart + 1 else {
            throw error("a leading zero")
        }
        var isInteger = true
        if peek == UInt8(ascii: ".") {
            isInteger = false
            offset += 1
            try digits()
        }
        if peek == UInt8(ascii: "e") || peek == UInt8(ascii: "E") {
            isInteger = false
            offset += 1
            if peek == UInt8(ascii: "-") || peek == UInt8(ascii: "+") { offset += 1 }
            try digits()
        }
        let text = String(decoding: bytes[start..<offset], as: UTF8.self)
        if isInteger { return Int64(text).map { .integer($0) } ?? .largeInteger(text) }
        guard let number = Double(text), number.isFinite else { throw error("a number out of range") }
        return .real(number)
    }

    private mutating func digits() throws(JSONError) {
        let start = offset
        while let byte = peek, (0x30...0x39).contains(byte) { offset += 1 }
        guard offset > start else { throw error("a value is missing") }
    }

    // MARK: Strings

    private mutating func string() throws(JSONError) -> String {
        guard peek == UInt8(ascii: "\"") else { throw error("a string is missing") }
        offset += 1
        var text: [UInt8] = []
        while let byte = peek {
            offset += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let string = String(validating: text, as: UTF8.self) else { throw error("not UTF-8") }
                return string
            case UInt8(ascii: "\\"): text += try escape()
            case 0..<0x20: throw error("a control character")
            default: text.append(byte)
            }
        }
        throw error("a string does not end")
    }

    private mutating func escape() throws(JSONError) -> [UInt8] {
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

    private mutating func unicodeEscape() throws(JSONError) -> [UInt8] {
        let first = try fourDigits(), end = offset
        if let scalar = Unicode.Scalar(first) { return Array(String(scalar).utf8) }
        do throws(JSONError) { return try secondHalf(after: first) } catch {
            guard replacesHalves else { throw error }
            // What follows is read by itself.
            offset = end
            return Array("\u{FFFD}".utf8)
        }
    }

    private mutating func secondHalf(after first: UInt32) throws(JSONError) -> [UInt8] {
        guard (0xd800...0xdbff).contains(first), peek == UInt8(ascii: "\\") else { throw error("half a character") }
        offset += 1
        guard peek == UInt8(ascii: "u") else { throw error("half a character") }
        offset += 1
        let second = try fourDigits()
        guard (0xdc00...0xdfff).contains(second) else { throw error("half a character") }
        let value = 0x10000 + (first - 0xd800) << 10 + (second - 0xdc00)
        guard let scalar = Unicode.Scalar(value) else { throw error("no character") }
        return Array(String(scalar).utf8)
    }

    private mutating func fourDigits() throws(JSONError) -> UInt32 {
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
        while let byte = peek, byte == 0x20 || (0x09...0x0a).contains(byte) || byte == 0x0d { offset += 1 }
    }

    /// Takes one character, with space before it, if it is there.
    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        skipSpace()
        guard let byte = peek, byte == UInt8(ascii: character) else { return false }
        offset += 1
        return true
    }

    private func error(_ reason: String) -> JSONError { JSONError(offset: offset, reason: reason) }
}
