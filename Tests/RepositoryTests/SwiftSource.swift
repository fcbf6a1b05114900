/// A Swift file as a list of tokens. Comments and the text of literals are left out; code in interpolations is kept.
struct SwiftSource {
    struct Token {
        let text: String
        let line: Int
    }

    let path: String
    let tokens: [Token]

    init(path: String, text: String) {
        self.path = path
        var lexer = SwiftLexer(text)
        tokens = lexer.tokens()
    }

    /// The text of the token at an index; empty outside the file.
    subscript(index: Int) -> String { tokens.indices.contains(index) ? tokens[index].text : "" }
}

/// Knows as much of Swift's lexical grammar as `SwiftSource` needs: no regex literals, and numbers are dropped.
private struct SwiftLexer {
    private let bytes: [UInt8]
    private var index = 0
    private var line = 1
    private var found: [SwiftSource.Token] = []

    init(_ text: String) { bytes = Array(text.utf8) }

    mutating func tokens() -> [SwiftSource.Token] {
        readCode(isInterpolation: false)
        return found
    }

    /// Reads to the end of the file, or to the parenthesis that closes an interpolation.
    private mutating func readCode(isInterpolation: Bool) {
        var depth = 0
        while let byte = peek() {
            switch byte {
            case UInt8(ascii: "/") where peek(1) == UInt8(ascii: "/"): skip { $0 != UInt8(ascii: "\n") }
            case UInt8(ascii: "/") where peek(1) == UInt8(ascii: "*"): skipBlockComment()
            case UInt8(ascii: "\""): readString(pounds: 0)
            case UInt8(ascii: "#") where poundsBeforeQuote > 0: readString(pounds: poundsBeforeQuote)
            case UInt8(ascii: "0")...UInt8(ascii: "9"): skip(while: \.isWordByte)
            case _ where byte.isWordByte: readWord()
            default:
                advance()
                if byte == UInt8(ascii: "(") { depth += 1 }
                if byte == UInt8(ascii: ")") { depth -= 1 }
                if isInterpolation, depth < 0 { return }
                if byte > 0x20 { append(String(decoding: [byte], as: UTF8.self)) }
            }
        }
    }

    private mutating func readWord() {
        let start = index
        skip(while: \.isWordByte)
        append(String(decoding: bytes[start..<index], as: UTF8.self))
    }

    private mutating func readString(pounds: Int) {
        advance(pounds)
        let quotes = peek(1) == UInt8(ascii: "\"") && peek(2) == UInt8(ascii: "\"") ? 3 : 1
        advance(quotes)
        let end = [UInt8](repeating: UInt8(ascii: "\""), count: quotes) + Self.pounds(pounds)
        let escape = [UInt8(ascii: "\\")] + Self.pounds(pounds)
        while index < bytes.count, !bytes[index...].starts(with: end) {
            guard bytes[index...].starts(with: escape) else {
                advance()
                continue
            }
            advance(escape.count)
            let isInterpolation = peek() == UInt8(ascii: "(")
            advance()
            if isInterpolation { readCode(isInterpolation: true) }
        }
        advance(end.count)
    }

    /// Block comments nest.
    private mutating func skipBlockComment() {
        var depth = 0
        repeat {
            switch (peek(), peek(1)) {
            case (UInt8(ascii: "/"), UInt8(ascii: "*")):
                depth += 1
                advance(2)
            case (UInt8(ascii: "*"), UInt8(ascii: "/")):
                depth -= 1
                advance(2)
            default:
                advance()
            }
        } while depth > 0 && index < bytes.count
    }

    /// How many `#` stand here in front of a string; 0 if no string follows them.
    private var poundsBeforeQuote: Int {
        let count = bytes[index...].prefix { $0 == UInt8(ascii: "#") }.count
        return peek(count) == UInt8(ascii: "\"") ? count : 0
    }

    private static func pounds(_ count: Int) -> [UInt8] { [UInt8](repeating: UInt8(ascii: "#"), count: count) }

    private func peek(_ offset: Int = 0) -> UInt8? {
        index + offset < bytes.count ? bytes[index + offset] : nil
    }

    private mutating func advance(_ count: Int = 1) {
        for _ in 0..<count where index < bytes.count {
            if bytes[index] == UInt8(ascii: "\n") { line += 1 }
            index += 1
        }
    }

    private mutating func skip(while holds: (UInt8) -> Bool) {
        while let byte = peek(), holds(byte) { advance() }
    }

    private mutating func append(_ text: String) { found.append(SwiftSource.Token(text: text, line: line)) }
}

extension UInt8 {
    /// True if a word of the source can have this byte: letters, digits, underscores, and all that is not ASCII.
    var isWordByte: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), 0x80...:
            true
        default: false
        }
    }
}
