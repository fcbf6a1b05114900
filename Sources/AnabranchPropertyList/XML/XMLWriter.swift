import AnabranchCore

/// Writes the XML form (`Spec/PropertyLists.md`, section 2): one element a line, keys in the order of their bytes,
/// empty texts and data in the long form, which all tools read.
struct XMLWriter {
    private var bytes: [UInt8] = []
    private var count = WriteCount()
    private let limits: PropertyListLimits

    private static let start = """
        <?xml version="1.0" encoding="UTF-8"?>
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
        <plist version="1.0">

        """

    static func document(_ root: PropertyList, _ limits: PropertyListLimits) throws(PropertyListError) -> [UInt8] {
        var writer = XMLWriter(limits: limits)
        writer.write(start)
        try writer.write(root, depth: 1)
        writer.write("</plist>\n")
        return writer.bytes
    }

    private init(limits: PropertyListLimits) { self.limits = limits }

    private mutating func write(_ value: PropertyList, depth: Int) throws(PropertyListError) {
        try count.add(value, depth, limits)
        switch value {
        case .string(let text): try write("string", text: text)
        case .integer(let number): write("<integer>\(number)</integer>\n")
        case .real(let number): write("<real>\(number)</real>\n")
        case .bool(let flag): write(flag ? "<true/>\n" : "<false/>\n")
        case .date(let date): write("<date>\(date)</date>\n")
        case .data(let data): write(data)
        case .array(let values):
            if values.isEmpty { return write("<array/>\n") }
            write("<array>\n")
            for (index, value) in values.enumerated() {
                do { try write(value, depth: depth + 1) } catch { throw error.inside(String(index)) }
            }
            write("</array>\n")
        case .dictionary(let values):
            if values.isEmpty { return write("<dict/>\n") }
            write("<dict>\n")
            for (key, value) in values {
                do {
                    try count.add(.string(key), depth + 1, limits)
                    try write("key", text: key)
                    try write(value, depth: depth + 1)
                } catch { throw error.inside(String(excerptOf: key.utf8)) }
            }
            write("</dict>\n")
        case .illFormedString:
            throw PropertyListError(.badValue, "half a pair of surrogates, which XML cannot hold")
        case .largeInteger, .refused: break  // has been refused
        }
    }

    private mutating func write(_ tag: StaticString, text: String) throws(PropertyListError) {
        write("<\(tag)>")
        for scalar in text.unicodeScalars where !XMLScanner.isCharacter(scalar) {
            throw PropertyListError(.badValue, "a character that XML cannot hold")
        }
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "&"): write("&amp;")
            case UInt8(ascii: "<"): write("&lt;")
            case UInt8(ascii: ">"): write("&gt;")
            // Read as LF otherwise.
            case 0x0d: write("&#13;")
            default: bytes.append(byte)
            }
        }
        write("</\(tag)>\n")
    }

    private mutating func write(_ data: [UInt8]) {
        write("<data>\n")
        var rest = Base64.encode(data).utf8[...]
        while !rest.isEmpty {
            bytes += rest.prefix(76)
            bytes.append(0x0a)
            rest = rest.dropFirst(76)
        }
        write("</data>\n")
    }

    private mutating func write(_ text: String) { bytes += text.utf8 }
}

/// The count of values, and the check for those that neither form writes.
struct WriteCount {
    private var values = 0

    mutating func add(_ value: PropertyList, _ depth: Int, _ limits: PropertyListLimits) throws(PropertyListError) {
        values += 1
        guard values <= limits.valuesMax else {
            throw PropertyListError(.limitExceeded, "more than \(limits.valuesMax) values and keys")
        }
        switch value {
        case .array, .dictionary:
            guard depth <= limits.depthMax else {
                throw PropertyListError(.limitExceeded, "more than \(limits.depthMax) levels")
            }
        case .real(let number) where !number.isFinite:
            throw PropertyListError(.badValue, "\(number) is never written")
        case .date(let date) where date.nanoseconds != 0:
            throw PropertyListError(.badValue, "\(date): fractions of a second are never written")
        case .largeInteger(let number):
            throw PropertyListError(.badValue, "\(number): integers of 2^63 and more are never written")
        case .refused(let error): throw PropertyListError(.badValue, "a value that was refused: \(error.reason)")
        default: break
        }
    }
}
