import AnabranchCore

/// The changes of a message that is refused unread, by what names them in the answer. It needs no more memory than the
/// message, however many values that has; where it is no JSON, the changes until there are found.
struct UnreadChanges: Sequence, IteratorProtocol {
    private let bytes: [UInt8]
    private var offset = 0
    private var isList = false
    private var isOver = false

    /// - Parameter payload: one change, or a list of changes.
    init(_ payload: Substring) {
        bytes = Array(payload.utf8)
        isList = take("[")
        isOver = isList && take("]")
    }

    /// The next change; what it does not say, or says not as a text, is empty.
    mutating func next() -> (key: String, ident: String)? {
        guard !isOver else { return nil }
        var key: String?, ident: String?
        if take("{") {
            repeat {
                let name = passValue()
                guard take(":") else { break }
                let value = passValue()
                if bytes[name].starts(with: #""id""#.utf8) { key = text(value) }
                if bytes[name].starts(with: #""ccid""#.utf8) { ident = text(value) }
            } while take(",")
            _ = take("}")
        } else {
            _ = passValue()
        }
        isOver = !(isList && take(","))
        return (key ?? "", ident ?? "")
    }

    private func text(_ range: Range<Int>) -> String? {
        (try? JSONValue(parsing: bytes[range], valuesMax: 1, replacesHalves: true))?.string
    }

    /// Passes over a name or a value, with all that is in it.
    private mutating func passValue() -> Range<Int> {
        skipSpace()
        let start = offset
        var depth = 0
        while offset < bytes.count {
            switch bytes[offset] {
            case UInt8(ascii: ","), UInt8(ascii: ":"):
                if depth == 0 { return start..<offset }
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if depth == 0 { return start..<offset }
                depth -= 1
            case UInt8(ascii: "\""): passText()
            default: break
            }
            offset += 1
        }
        // A text that does not end may end after a backslash.
        offset = bytes.count
        return start..<offset
    }

    /// Goes from the beginning of a text to its last byte.
    private mutating func passText() {
        offset += 1
        while offset < bytes.count, bytes[offset] != UInt8(ascii: "\"") {
            offset += bytes[offset] == UInt8(ascii: "\\") ? 2 : 1
        }
    }

    private mutating func skipSpace() {
        while offset < bytes.count, bytes[offset] <= 0x20 { offset += 1 }
    }

    /// Takes one character, with space before it, if it is there.
    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        skipSpace()
        guard offset < bytes.count, bytes[offset] == UInt8(ascii: character) else { return false }
        offset += 1
        return true
    }
}
