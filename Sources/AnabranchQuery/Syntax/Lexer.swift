/// Divides a text into tokens: the longest wins, for equal lengths the one that `Spec/Query.md` names first.
struct Lexer {
    private let text: [UInt8]

    private init(_ text: [UInt8]) { self.text = text }

    /// The tokens of a text, followed by one of the kind `end`.
    static func tokens(of text: [UInt8]) throws(QueryError) -> [Token] {
        guard text.count <= QueryLimits.textBytesMax else {
            let reason = "the text has \(text.count) bytes, the most are \(QueryLimits.textBytesMax)"
            throw QueryError(.limit, at: QueryLimits.textBytesMax, reason)
        }
        let lexer = Lexer(text)
        var tokens: [Token] = []
        var position = 0
        while position < text.count {
            if [0x20, 0x09, 0x0A, 0x0D].contains(text[position]) {
                position += 1
                continue
            }
            let token = try lexer.token(at: position)
            tokens.append(token)
            position = token.range.upperBound
        }
        tokens.append(Token(kind: .end, range: position..<position))
        return tokens
    }

    private func token(at start: Int) throws(QueryError) -> Token {
        var kind: Token.Kind?
        var end = start
        func offer(_ candidate: Token.Kind, _ candidateEnd: Int?) {
            if let candidateEnd, candidateEnd > end { (kind, end) = (candidate, candidateEnd) }
        }
        offerSign(at: start, offer)
        switch text[start] {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."):
            offerNumber(at: start, offer)
        case UInt8(ascii: "\""), UInt8(ascii: "'"): offer(.string, quoted(at: start))
        case UInt8(ascii: "@"):
            for (word, kind) in Token.Kind.pathWords { offer(kind, literal(word, at: start)) }
        default: offerWord(at: start, offer)
        }
        guard let kind else {
            throw QueryError(.syntax, at: start, "no token begins with \(character(at: start))")
        }
        return Token(kind: kind, range: start..<end)
    }

    /// The character at a place, for an error.
    private func character(at start: Int) -> String {
        let next = String(decoding: text[start..<min(start + 4, text.count)], as: UTF8.self)
        return "\"\(next.unicodeScalars.prefix(1).map { $0.escaped(asASCII: false) }.joined())\""
    }

    // MARK: Parts of tokens: each returns where the part ends, or nil

    private func literal(_ word: String, at start: Int) -> Int? {
        text[start...].starts(with: word.utf8) ? start + word.utf8.count : nil
    }

    private func byte(_ character: Unicode.Scalar, at position: Int) -> Int? {
        position < text.count && text[position] == UInt8(ascii: character) ? position + 1 : nil
    }

    private func run(at start: Int, while isPart: (UInt8) -> Bool) -> Int? {
        var end = start
        while end < text.count, isPart(text[end]) { end += 1 }
        return end > start ? end : nil
    }

    private func digits(at start: Int) -> Int? { run(at: start, while: \.isDigit) }

    private func sign(at start: Int) -> Int { byte("+", at: start) ?? byte("-", at: start) ?? start }

    private func signedDigits(at start: Int) -> Int? { digits(at: sign(at: start)) }

    /// As many hexadecimal digits as each number says, with hyphens between them.
    private func hexadecimal(_ counts: [Int], at start: Int) -> Int? {
        var end = start
        for (index, count) in counts.enumerated() {
            if index > 0 {
                guard let next = byte("-", at: end) else { return nil }
                end = next
            }
            guard end + count <= text.count, text[end..<end + count].allSatisfy(\.isHexadecimal) else { return nil }
            end += count
        }
        return end
    }

    // MARK: Tokens

    private func offerSign(at start: Int, _ offer: (Token.Kind, Int?) -> Void) {
        for (sign, kind) in Token.Kind.signs where text[start] == sign.utf8.first {
            offer(kind, literal(sign, at: start))
        }
    }

    private func offerNumber(at start: Int, _ offer: (Token.Kind, Int?) -> Void) {
        for word in ["infinity", "inf", "nan"] {
            if let kind = Token.Kind.words[word] { offer(kind, self.word(word, at: sign(at: start))) }
        }
        offer(.date, date(at: start))
        offer(.natural, digits(at: start))
        offer(.number, signedDigits(at: start))
        if let prefix = byte("0", at: start).flatMap({ byte("x", at: $0) ?? byte("X", at: $0) }) {
            offer(.number, run(at: prefix, while: \.isHexadecimal))
        }
        offer(.float, float(at: start))
    }

    /// A word in any case.
    private func word(_ word: String, at start: Int) -> Int? {
        guard start + word.utf8.count <= text.count else { return nil }
        return zip(text[start...], word.utf8).allSatisfy { $0.lowercased == $1 } ? start + word.utf8.count : nil
    }

    /// Digits with a point, an exponent, or an `f` at the end.
    private func float(at start: Int) -> Int? {
        let whole = digits(at: sign(at: start))
        var end: Int
        if let point = byte(".", at: whole ?? sign(at: start)) {
            guard let fraction = digits(at: point) ?? (whole == nil ? nil : point) else { return nil }
            end = fraction
        } else {
            guard let whole else { return nil }
            end = whole
        }
        if let exponent = byte("e", at: end) ?? byte("E", at: end), let digits = signedDigits(at: exponent) {
            end = digits
        }
        return byte("f", at: end) ?? end
    }

    /// `Y-M-D@h:m:s` or `Y-M-DTh:m:s`, and nanoseconds.
    private func date(at start: Int) -> Int? {
        var end = start
        for separator in ["-", "-", "@", ":", ":"] as [Unicode.Scalar] {
            guard let part = digits(at: end) else { return nil }
            guard let next = byte(separator, at: part) ?? (separator == "@" ? byte("T", at: part) : nil) else {
                return nil
            }
            end = next
        }
        guard let seconds = digits(at: end) else { return nil }
        return byte(":", at: seconds).flatMap(digits) ?? seconds
    }

    private func quoted(at start: Int) -> Int? {
        var position = start + 1
        while position < text.count {
            if text[position] == text[start] { return position + 1 }
            if text[position] == UInt8(ascii: "\\") {
                guard position + 1 < text.count else { return nil }
                if text[position + 1] == UInt8(ascii: "u") {
                    guard let end = hexadecimal([4], at: position + 2) else { return nil }
                    position = end
                    continue
                }
                guard "\"'/bfnrt0\\".utf8.contains(text[position + 1]) else { return nil }
                position += 1
            }
            position += 1
        }
        return nil
    }

    /// Identifiers, keywords and other tokens that begin like an identifier.
    private func offerWord(at start: Int, _ offer: (Token.Kind, Int?) -> Void) {
        if let end = literal("uuid(", at: start).flatMap({ hexadecimal([8, 4, 4, 4, 12], at: $0) }) {
            offer(.uuid, byte(")", at: end))
        }
        if let end = literal("oid(", at: start).flatMap({ hexadecimal([24], at: $0) }) {
            offer(.objectID, byte(")", at: end))
        }
        if let seconds = byte("T", at: start).flatMap(signedDigits).flatMap({ byte(":", at: $0) }) {
            offer(.date, signedDigits(at: seconds))
        }
        if let table = byte("L", at: start).flatMap(digits).flatMap({ byte(":", at: $0) }) {
            offer(.typedLink, digits(at: table))
        }
        if let start = literal("B64\"", at: start) {
            offer(.base64, byte("\"", at: run(at: start) { $0.isAlphanumeric || "/+=".utf8.contains($0) } ?? start))
        }
        guard let end = identifier(at: start) else { return }
        offer(keyword(start..<end), end)
    }

    private func identifier(at start: Int) -> Int? {
        guard text[start].beginsIdentifier else { return nil }
        var end = start + 1
        while end < text.count {
            if text[end].beginsIdentifier || text[end].isDigit || text[end] == UInt8(ascii: "-") {
                end += 1
            } else if text[end] == UInt8(ascii: "\\"), end + 1 < text.count, " nrt".utf8.contains(text[end + 1]) {
                end += 2
            } else {
                break
            }
        }
        // Only text: an identifier of other bytes could name nothing.
        return String(validating: text[start..<end], as: UTF8.self) == nil ? nil : end
    }

    private func keyword(_ range: Range<Int>) -> Token.Kind {
        let word = String(decoding: text[range], as: UTF8.self)
        if let kind = Token.Kind.exactWords[word]
            ?? Token.Kind.words[String(decoding: text[range].map(\.lowercased), as: UTF8.self)]
        {
            return kind
        }
        if text[range.lowerBound] == UInt8(ascii: "O"), digits(at: range.lowerBound + 1) == range.upperBound {
            return .objectKey
        }
        guard text[range.lowerBound] == UInt8(ascii: "$") else { return .identifier }
        if digits(at: range.lowerBound + 1) == range.upperBound { return .argument }
        return literal("$K", at: range.lowerBound).flatMap(digits) == range.upperBound ? .pathArgument : .identifier
    }
}

extension UInt8 {
    var isDigit: Bool { self >= UInt8(ascii: "0") && self <= UInt8(ascii: "9") }

    var isLetter: Bool { lowercased >= UInt8(ascii: "a") && lowercased <= UInt8(ascii: "z") }

    var isAlphanumeric: Bool { isDigit || isLetter }

    var isHexadecimal: Bool { isDigit || lowercased >= UInt8(ascii: "a") && lowercased <= UInt8(ascii: "f") }

    var beginsIdentifier: Bool { isLetter || self >= 0x80 || self == UInt8(ascii: "_") || self == UInt8(ascii: "$") }

    /// The byte, in lower case if it is an ASCII letter.
    var lowercased: UInt8 { self >= UInt8(ascii: "A") && self <= UInt8(ascii: "Z") ? self | 0x20 : self }
}
