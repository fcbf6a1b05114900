import AnabranchCore

/// Tags, texts and what stands between them, in a document of XML 1.0 without entities of its own.
struct XMLScanner {
    private let bytes: [UInt8]
    private let isUTF16: Bool
    private(set) var offset = 0
    /// A line and the offset at which it was counted last: errors come in the order of the document, nearly.
    private var counted = (offset: 0, line: 1)

    struct Tag {
        let name: String
        /// The place of its `<`.
        let offset: Int
        /// `<name/>`, to which no end belongs.
        let isEmpty: Bool
    }

    /// The text between two tags, and the first of it that no text can hold.
    struct Text {
        var bytes: [UInt8] = []
        var fault: (reason: String, offset: Int)?
    }

    init(_ bytes: [UInt8]) throws(PropertyListError) {
        isUTF16 = bytes.starts(with: [0xFE, 0xFF]) || bytes.starts(with: [0xFF, 0xFE])
        self.bytes = isUTF16 ? try Self.utf8(ofUTF16: bytes) : bytes
        if self.bytes.starts(with: [0xEF, 0xBB, 0xBF]) { offset = 3 }
        if String(validating: self.bytes, as: UTF8.self) == nil {
            throw error(.malformed, "not UTF-8", at: Self.validPrefixCount(self.bytes))
        }
    }

    private static func utf8(ofUTF16 bytes: [UInt8]) throws(PropertyListError) -> [UInt8] {
        let isBigEndian = bytes[0] == 0xFE
        let units = stride(from: 2, to: bytes.count - 1, by: 2).map { index in
            let pair = (UInt16(bytes[index]), UInt16(bytes[index + 1]))
            return isBigEndian ? pair.0 << 8 | pair.1 : pair.1 << 8 | pair.0
        }
        guard bytes.count.isMultiple(of: 2), let text = String(validating: units, as: UTF16.self) else {
            throw PropertyListError(.malformed, "not UTF-16")
        }
        return Array(text.utf8)
    }

    private static func validPrefixCount(_ bytes: [UInt8]) -> Int {
        var (parser, iterator, count) = (Unicode.UTF8.ForwardParser(), bytes.makeIterator(), 0)
        while case .valid(let scalar) = parser.parseScalar(from: &iterator) { count += scalar.count }
        return count
    }

    // MARK: Errors

    mutating func error(
        _ code: PropertyListError.Code, _ reason: String, at place: Int? = nil
    ) -> PropertyListError {
        let place = place ?? offset
        if place < counted.offset { counted = (0, 1) }
        counted.line += bytes[counted.offset..<place].count { $0 == 0x0a }
        counted.offset = place
        return PropertyListError(code, at: .init(line: counted.line, offset: isUTF16 ? nil : place), reason)
    }

    mutating func malformed(_ reason: String, at place: Int? = nil) -> PropertyListError {
        error(.malformed, reason, at: place)
    }

    // MARK: Between values

    var isAtEnd: Bool { offset == bytes.count }

    /// Skips all before the first tag: declaration, document type, comments.
    mutating func skipProlog() throws(PropertyListError) {
        skipBlanks()
        if take("<?xml") { try skipDeclaration() }
        try skipComments()
        let start = offset
        if take("<!DOCTYPE") { try skipDocumentType(start) }
        try skipComments()
    }

    /// Skips blanks, comments and processing instructions.
    mutating func skipComments() throws(PropertyListError) {
        repeat { skipBlanks() } while try skipComment()
    }

    /// True if an end tag is what comes next.
    mutating func isAtEndTag() throws(PropertyListError) -> Bool {
        try skipComments()
        return isNext("</")
    }

    private mutating func skipComment() throws(PropertyListError) -> Bool {
        let start = offset
        if take("<!--") {
            try skip(past: "--", "a comment does not end", start)
            guard take(">") else { throw malformed("-- in a comment") }
            return true
        }
        guard take("<?") else { return false }
        guard name() != "xml" else { throw malformed("a second XML declaration", at: start) }
        try skip(past: "?>", "a processing instruction does not end", start)
        return true
    }

    private mutating func skipDeclaration() throws(PropertyListError) {
        let start = offset
        for attribute in try attributes() {
            switch (attribute.name, attribute.value.lowercased()) {
            case ("version", "1.0"), ("standalone", "yes"), ("standalone", "no"): break
            case ("encoding", "utf-16") where isUTF16: break
            case ("encoding", "utf-8"), ("encoding", "us-ascii"):
                guard !isUTF16 else { throw malformed("UTF-16 that says to be \(attribute.value)", at: start) }
            default:
                throw malformed("\(attribute.name) \(String(excerptOf: attribute.value.utf8)) is not read", at: start)
            }
        }
        guard take("?>") else { throw malformed("the XML declaration does not end", at: start) }
    }

    /// The names that property lists have had. Nothing is fetched by them.
    private static let documentTypes: Set = [
        "-//Apple//DTD PLIST 1.0//EN", "-//Apple Computer//DTD PLIST 1.0//EN", "-//GNUstep//DTD plist 0.9//EN",
    ]

    private mutating func skipDocumentType(_ start: Int) throws(PropertyListError) {
        skipBlanks()
        guard name() == "plist" else { throw malformed("a document type that is not plist's", at: start) }
        skipBlanks()
        if take("PUBLIC") {
            skipBlanks()
            guard let type = try quoted(), Self.documentTypes.contains(type) else {
                throw malformed("a document type that is not plist's", at: start)
            }
            skipBlanks()
            guard try quoted() != nil else { throw malformed("a document type without an address", at: start) }
            skipBlanks()
        }
        guard take(">") else { throw malformed("a document type with entities or rules of its own", at: start) }
    }

    // MARK: Tags

    mutating func startTag() throws(PropertyListError) -> Tag {
        try skipComments()
        let start = offset
        guard take("<") else { throw malformed(isAtEnd ? "the document ends early" : "text between values") }
        let name = name()
        guard !name.isEmpty else { throw malformed("no tag", at: start) }
        _ = try attributes()
        let isEmpty = take("/")
        guard take(">") else { throw malformed("<\(name) does not end", at: start) }
        return Tag(name: name, offset: start, isEmpty: isEmpty)
    }

    mutating func endTag(of tag: Tag) throws(PropertyListError) {
        let start = offset
        guard take("</"), name() == tag.name else { throw malformed("not the end of <\(tag.name)>", at: start) }
        skipBlanks()
        guard take(">") else { throw malformed("</\(tag.name) does not end", at: start) }
    }

    /// A name of letters and digits, as long as those of messages are; empty if there is none.
    private mutating func name() -> String {
        let start = offset
        while let byte = peek, (0x61...0x7a ~= byte | 0x20) || 0x30...0x39 ~= byte || byte == 0x2d || byte == 0x3a {
            offset += 1
        }
        return String(excerptOf: bytes[start..<offset])
    }

    private mutating func attributes() throws(PropertyListError) -> [(name: String, value: String)] {
        var attributes: [(name: String, value: String)] = []
        while let byte = peek, ScalarText.isBlank(byte) {
            skipBlanks()
            let name = name()
            if name.isEmpty { break }
            skipBlanks()
            guard take("=") else { throw malformed("an attribute without a value") }
            skipBlanks()
            guard let value = try quoted() else { throw malformed("an attribute without a value") }
            attributes.append((name, value))
        }
        return attributes
    }

    private mutating func quoted() throws(PropertyListError) -> String? {
        guard let quote = peek, quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { return nil }
        let start = offset + 1
        guard let end = bytes[start...].firstIndex(where: { $0 == quote || $0 == UInt8(ascii: "<") }),
            bytes[end] == quote
        else { throw malformed("a quotation mark without a second one") }
        offset = end + 1
        return String(decoding: bytes[start..<end], as: UTF8.self)
    }

    // MARK: Texts

    /// Reads the text of an element and its end tag: references expanded, CDATA taken in, comments left out, ends of
    /// lines LF.
    mutating func text(of tag: Tag) throws(PropertyListError) -> Text {
        var text = Text()
        if tag.isEmpty { return text }
        while let byte = peek {
            switch byte {
            case UInt8(ascii: "<"):
                let start = offset
                if take("<![CDATA[") {
                    let content = offset
                    try skip(past: "]]>", "CDATA does not end", start)
                    append(content..<offset - 3, to: &text)
                } else if try !skipComment() {
                    guard isNext("</") else { throw malformed("a tag in <\(tag.name)>") }
                    try endTag(of: tag)
                    return text
                }
            case UInt8(ascii: "&"): try appendReference(to: &text)
            default:
                let start = offset
                while let byte = peek, byte != UInt8(ascii: "<"), byte != UInt8(ascii: "&") {
                    guard byte != UInt8(ascii: "]") || !isNext("]]>") else { throw malformed("]]> in a text") }
                    offset += 1
                }
                append(start..<offset, to: &text)
            }
        }
        throw malformed("<\(tag.name)> does not end", at: tag.offset)
    }

    private mutating func append(_ range: Range<Int>, to text: inout Text) {
        for index in range {
            let byte = bytes[index]
            switch byte {
            case 0x0d:
                if index + 1 == bytes.count || bytes[index + 1] != 0x0a { text.bytes.append(0x0a) }
            case 0x09, 0x0a: text.bytes.append(byte)
            case 0..<0x20:
                report("a control character, which XML cannot hold", at: index, in: &text)
            case 0xBE...0xBF where index >= 2 && bytes[index - 1] == 0xBF && bytes[index - 2] == 0xEF:
                report("U+FFFE or U+FFFF, which XML cannot hold", at: index, in: &text)
            default: text.bytes.append(byte)
            }
        }
    }

    private func report(_ reason: String, at place: Int, in text: inout Text) {
        if text.fault == nil { text.fault = (reason, place) }
    }

    private static let entities: [String: UInt8] = ["lt": 0x3c, "gt": 0x3e, "amp": 0x26, "quot": 0x22, "apos": 0x27]

    private mutating func appendReference(to text: inout Text) throws(PropertyListError) {
        let start = offset
        offset += 1
        if take("#") {
            let base: UInt32 = take("x") ? 16 : 10
            var (number, digits): (UInt32, Int) = (0, 0)
            while let digit = peek.flatMap(Hex.value), digit < base {
                // Beyond all characters it stays there.
                number = min(number * base + UInt32(digit), 0x11_0000)
                (digits, offset) = (digits + 1, offset + 1)
            }
            guard digits > 0, take(";") else { throw malformed("a reference does not end", at: start) }
            if let scalar = Unicode.Scalar(number), Self.isCharacter(scalar) {
                text.bytes += String(scalar).utf8
            } else {
                report("a reference to what XML cannot hold", at: start, in: &text)
            }
        } else {
            let name = name()
            guard let character = Self.entities[name] else { throw malformed("an unknown entity", at: start) }
            guard take(";") else { throw malformed("a reference does not end", at: start) }
            text.bytes.append(character)
        }
    }

    /// The characters of XML 1.0.
    static func isCharacter(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x09, 0x0a, 0x0d: true
        case 0..<0x20, 0xFFFE, 0xFFFF: false
        default: true
        }
    }

    // MARK: Bytes

    private var peek: UInt8? { offset < bytes.count ? bytes[offset] : nil }

    private mutating func skipBlanks() {
        while let byte = peek, ScalarText.isBlank(byte) { offset += 1 }
    }

    private func isNext(_ text: StaticString) -> Bool {
        text.withUTF8Buffer { bytes[offset...].starts(with: $0) }
    }

    private mutating func take(_ text: StaticString) -> Bool {
        guard isNext(text) else { return false }
        offset += text.utf8CodeUnitCount
        return true
    }

    private mutating func skip(past text: StaticString, _ reason: String, _ start: Int) throws(PropertyListError) {
        while !take(text) {
            guard !isAtEnd else { throw malformed(reason, at: start) }
            offset += 1
        }
    }
}
