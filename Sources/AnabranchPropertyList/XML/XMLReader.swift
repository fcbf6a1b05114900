/// Reads the XML form (`Spec/PropertyLists.md`, section 2): one pass over the bytes, without a document type, entities
/// and anything else that would have to be looked up.
struct XMLReader {
    var scanner: XMLScanner
    private let limits: PropertyListLimits
    private var valueCount = 0

    init(_ bytes: [UInt8], _ limits: PropertyListLimits) throws(PropertyListError) {
        (scanner, self.limits) = (try XMLScanner(bytes), limits)
    }

    mutating func document() throws(PropertyListError) -> PropertyList {
        try scanner.skipProlog()
        let tag = try scanner.startTag()
        guard tag.name == "plist" else { throw scanner.malformed("<\(tag.name)>, not <plist>", at: tag.offset) }
        guard !tag.isEmpty, try !scanner.isAtEndTag() else { throw scanner.malformed("no value in <plist>") }
        let root = try value(depth: 1)
        guard try scanner.isAtEndTag() || scanner.isAtEnd else { throw scanner.malformed("a second value in <plist>") }
        try scanner.endTag(of: tag)
        try scanner.skipComments()
        guard scanner.isAtEnd else { throw scanner.malformed("something follows </plist>") }
        return root
    }

    private mutating func value(depth: Int) throws(PropertyListError) -> PropertyList {
        let tag = try startTag()
        switch tag.name {
        case "dict": return .dictionary(try dictionary(tag, depth))
        case "array": return .array(try array(tag, depth))
        case "string": return try leaf(tag, "text") { .string(String(decoding: $0, as: UTF8.self)) }
        case "integer": return try leaf(tag, "integer from -2^63 to 2^64-1", ScalarText.integer)
        case "real": return try leaf(tag, "number", ScalarText.real)
        case "date": return try leaf(tag, "moment with Z or an offset in the years 0001 to 9999", ScalarText.date)
        case "data": return try leaf(tag, "Base64 with its padding", ScalarText.data)
        case "true", "false": return .bool(try flag(tag))
        default: throw scanner.malformed("<\(tag.name)> is not a value", at: tag.offset)
        }
    }

    /// The tag of a value or a key.
    private mutating func startTag() throws(PropertyListError) -> XMLScanner.Tag {
        let tag = try scanner.startTag()
        valueCount += 1
        guard valueCount <= limits.valuesMax else {
            throw scanner.error(.limitExceeded, "more than \(limits.valuesMax) values and keys", at: tag.offset)
        }
        return tag
    }

    private mutating func dictionary(_ tag: XMLScanner.Tag, _ depth: Int) throws(PropertyListError)
        -> PropertyListDictionary
    {
        try enter(tag, depth)
        if tag.isEmpty { return [:] }
        var entries: [PropertyListDictionary.Element] = []
        var offsets: [Int] = []
        while try !scanner.isAtEndTag() {
            let key = try startTag()
            guard key.name == "key" else { throw scanner.malformed("<\(key.name)> without a key", at: key.offset) }
            let text = try scanner.text(of: key)
            if let fault = text.fault { throw scanner.malformed("a key with \(fault.reason)", at: fault.offset) }
            guard try !scanner.isAtEndTag() else { throw scanner.malformed("a key without a value", at: key.offset) }
            entries.append((String(decoding: text.bytes, as: UTF8.self), try value(depth: depth + 1)))
            offsets.append(key.offset)
        }
        try scanner.endTag(of: tag)
        do { return try PropertyListDictionary(uniqueKeys: entries) } catch {
            throw scanner.malformed("a key twice", at: offsets[error.index])
        }
    }

    private mutating func array(_ tag: XMLScanner.Tag, _ depth: Int) throws(PropertyListError) -> [PropertyList] {
        try enter(tag, depth)
        if tag.isEmpty { return [] }
        var values: [PropertyList] = []
        while try !scanner.isAtEndTag() { values.append(try value(depth: depth + 1)) }
        try scanner.endTag(of: tag)
        return values
    }

    private mutating func enter(_ tag: XMLScanner.Tag, _ depth: Int) throws(PropertyListError) {
        guard depth <= limits.depthMax else {
            throw scanner.error(.limitExceeded, "more than \(limits.depthMax) levels", at: tag.offset)
        }
    }

    /// An invalid leaf stays, as a refused value, so that errors can name its place.
    private mutating func leaf(
        _ tag: XMLScanner.Tag, _ kind: String, _ read: ([UInt8]) -> PropertyList?
    ) throws(PropertyListError) -> PropertyList {
        let text = try scanner.text(of: tag)
        if let fault = text.fault { return .refused(scanner.error(.badValue, fault.reason, at: fault.offset)) }
        return read(text.bytes) ?? .refused(scanner.error(.badValue, "no \(kind)", at: tag.offset))
    }

    private mutating func flag(_ tag: XMLScanner.Tag) throws(PropertyListError) -> Bool {
        guard try scanner.text(of: tag).bytes.allSatisfy(ScalarText.isBlank) else {
            throw scanner.malformed("something in <\(tag.name)>", at: tag.offset)
        }
        return tag.name == "true"
    }
}
