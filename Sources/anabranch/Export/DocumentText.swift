import AnabranchCore
import AnabranchExplain
import Foundation

/// The objects of a state as documents in MongoDB's extended JSON, relaxed: numbers are numbers of JSON
/// (`Spec/Export.md`, section 7). What a document cannot hold is counted.
struct DocumentText {
    /// The change that a value goes through because documents have none like it.
    enum Loss: String, Comparable {
        case time = "was cut to milliseconds"
        case text = "is not UTF-8, and is written as binary"
        case name = "has a name that no document can have, and is left out"
        case nullKey = "leads to an object whose key is null, which no cell can name, and is left empty"
        case decimal = "is not a decimal of MongoDB, and is written as 0"

        static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    }

    private let texts: ValueTexts
    /// The number of times, by the class and the property.
    private(set) var losses: [String: [Loss: Int]] = [:]
    /// The property that is being written, with its class.
    private var place = ""

    init(of state: ObjectGraph) { texts = ValueTexts(of: state) }

    /// The name that the key of an object has in a document, also where its class has no primary key.
    static func keyName(_ schema: ClassSchema) -> [UInt8] { schema.key?.name ?? Array("_id".utf8) }

    /// The properties in the order of their names, without one that stands in the way of the key.
    static func properties(_ schema: ClassSchema) -> [Property] {
        schema.properties.filter { $0.name != keyName(schema) }.sorted { $0.name.lexicographicallyPrecedes($1.name) }
    }

    mutating func count(_ loss: Loss) { losses[place, default: [:]][loss, default: 0] += 1 }

    /// Names the property that `count` counts from now on.
    mutating func begin(_ property: [UInt8], of schema: ClassSchema) {
        place = String(decoding: schema.name + [UInt8(ascii: ".")] + property, as: UTF8.self)
    }

    /// Appends a top-level object.
    mutating func append(
        _ object: StateObject, of schema: ClassSchema, _ properties: [Property], to text: inout [UInt8]
    ) {
        text.append(UInt8(ascii: "{"))
        JSONText.append(string: Self.keyName(schema), to: &text)
        text.append(UInt8(ascii: ":"))
        begin(Self.keyName(schema), of: schema)
        append(key: object.key ?? .null, to: &text)
        for property in properties {
            begin(property.name, of: schema)
            let value = object.value(of: property)
            appendMember(property.name, value, isMixed: property.type == .null, after: true, to: &text)
        }
        text.append(UInt8(ascii: "}"))
    }

    /// Appends a name and its value, unless the name is not one of a document.
    /// - Returns: true if it was written.
    @discardableResult private mutating func appendMember(
        _ name: [UInt8], _ value: StateValue, isMixed: Bool, after isLater: Bool, to text: inout [UInt8]
    ) -> Bool {
        guard name.first != UInt8(ascii: "$"), String(validating: name, as: UTF8.self) != nil else {
            count(.name)
            return false
        }
        if isLater { text.append(UInt8(ascii: ",")) }
        JSONText.append(string: name, to: &text)
        text.append(UInt8(ascii: ":"))
        append(value, isMixed: isMixed, to: &text)
        return true
    }

    /// Appends a value.
    ///
    /// - Parameter isMixed: true if the property does not say the type, so that a link names the class it leads to.
    mutating func append(_ value: StateValue, isMixed: Bool, to text: inout [UInt8]) {
        switch value {
        case .null: text += "null".utf8
        case .bool(let value): text += "\(value)".utf8
        case .int(let value): text += "\(value)".utf8
        case .float(let value): append(Double(value), to: &text)
        case .double(let value): append(value, to: &text)
        case .decimal(let value): append("$numberDecimal", plain(value), to: &text)
        case .string(let bytes):
            guard String(validating: bytes, as: UTF8.self) != nil else {
                count(.text)
                return append(binary: bytes, subtype: "00", to: &text)
            }
            JSONText.append(string: bytes, to: &text)
        case .binary(let bytes): append(binary: bytes, subtype: "00", to: &text)
        case .timestamp(let time): append(time, to: &text)
        case .objectID(let value): append("$oid", "\(value)", to: &text)
        case .uuid(let value): append(binary: value.bytes, subtype: "04", to: &text)
        case .link:
            guard case .link(let className, let key)? = texts.payload(of: value) else { return text += "null".utf8 }
            guard isMixed else { return append(key: key, to: &text) }
            text += "{\"$ref\":".utf8
            JSONText.append(string: className, to: &text)
            text += ",\"$id\":".utf8
            append(key: key, to: &text)
            text.append(UInt8(ascii: "}"))
        case .object(let object):
            let properties = texts.properties(of: object).sorted { $0.name.lexicographicallyPrecedes($1.name) }
            append(members: properties.map { ($0.name, object.value(of: $0), $0.type == .null) }, to: &text)
        case .list(let list): append(elements: list.values, isMixed: isMixed, to: &text)
        case .set(let set): append(elements: set.values, isMixed: isMixed, to: &text)
        case .dictionary(let entries):
            append(members: zip(entries.keys, entries.values).map { ($0, $1, isMixed) }, to: &text)
        }
    }

    private mutating func append(elements: [StateValue], isMixed: Bool, to text: inout [UInt8]) {
        text.append(UInt8(ascii: "["))
        for (position, element) in elements.enumerated() {
            if position > 0 { text.append(UInt8(ascii: ",")) }
            append(element, isMixed: isMixed, to: &text)
        }
        text.append(UInt8(ascii: "]"))
    }

    private mutating func append(
        members: [(name: [UInt8], value: StateValue, isMixed: Bool)], to text: inout [UInt8]
    ) {
        text.append(UInt8(ascii: "{"))
        var isLater = false
        for (name, value, isMixed) in members {
            if appendMember(name, value, isMixed: isMixed, after: isLater, to: &text) { isLater = true }
        }
        text.append(UInt8(ascii: "}"))
    }

    /// Appends a primary key; one that objects have without a primary key of their own is its two numbers, as text.
    private mutating func append(key: PrimaryKey, to text: inout [UInt8]) {
        if case .globalKey(let key) = key {
            JSONText.append(string: key.text.utf8, to: &text)
        } else {
            append(StateValue(key), isMixed: false, to: &text)
        }
    }

    // MARK: Constants

    private func append(_ name: StaticString, _ value: String, to text: inout [UInt8]) {
        text += "{\"\(name)\":\"\(value)\"}".utf8
    }

    private func append(binary bytes: [UInt8], subtype: StaticString, to text: inout [UInt8]) {
        text += "{\"$binary\":{\"base64\":\"\(Base64.encode(bytes))\",\"subType\":\"\(subtype)\"}}".utf8
    }

    private func append(_ value: Double, to text: inout [UInt8]) {
        if value.isFinite { text += "\(value)".utf8 } else { append("$numberDouble", value.word, to: &text) }
    }

    /// The text of a decimal as other libraries read it.
    mutating func plain(_ value: Decimal128) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value.isNegative ? "-Infinity" : "Infinity" }
        guard DecimalText("\(value)".utf8).flatMap(Decimal128.init) != nil else {
            count(.decimal)
            return "0"
        }
        return "\(value)"
    }

    private mutating func append(_ time: Timestamp, to text: inout [UInt8]) {
        let (milliseconds, isExact) = time.milliseconds
        if !isExact { count(.time) }
        if let date = time.date, milliseconds >= 0 {
            let fraction = milliseconds % 1000
            let digits = fraction == 0 ? "" : ".\(String(fraction + 1000).dropFirst())"
            append("$date", "\(date.dropLast())\(digits)Z", to: &text)
        } else {
            text += "{\"$date\":{\"$numberLong\":\"\(milliseconds)\"}}".utf8
        }
    }
}

extension GlobalKey {
    /// Both numbers, in hexadecimal, as exports have them.
    var text: String { "\(String(high, radix: 16))-\(String(low, radix: 16))" }
}

extension Double {
    /// The word for a number that is not finite.
    var word: String { isNaN ? "NaN" : self < 0 ? "-Infinity" : "Infinity" }
}

extension Timestamp {
    /// The years that dates are written of: in them every calendar is the Gregorian one.
    private static let datedSeconds: Range<Int64> = -12_212_553_600..<253_402_300_800  // 1583 … 9999

    /// Whole seconds towards the past, and the nanoseconds after them; nil if the nanoseconds are none.
    private var parts: (seconds: Int64, nanoseconds: Int64)? {
        guard abs(Int64(nanoseconds)) < 1_000_000_000 else { return nil }
        guard nanoseconds < 0 else { return (seconds, Int64(nanoseconds)) }
        let (earlier, isTooEarly) = seconds.subtractingReportingOverflow(1)
        return isTooEarly ? nil : (earlier, Int64(nanoseconds) + 1_000_000_000)
    }

    /// The milliseconds since 1970, towards the past, or the nearest that there are; false if it is not just these.
    var milliseconds: (Int64, isExact: Bool) {
        guard let parts else { return (seconds < 0 ? .min : .max, false) }
        let (whole, isTooLarge) = parts.seconds.multipliedReportingOverflow(by: 1000)
        let (sum, isTooLate) = whole.addingReportingOverflow(parts.nanoseconds / 1_000_000)
        guard !isTooLarge, !isTooLate else { return (seconds < 0 ? .min : .max, false) }
        return (sum, parts.nanoseconds.isMultiple(of: 1_000_000))
    }

    /// The second as a date of RFC 3339; nil for years in which calendars differ, and beyond 9999.
    var date: String? {
        guard let parts, Self.datedSeconds.contains(parts.seconds) else { return nil }
        return Date(timeIntervalSince1970: Double(parts.seconds)).formatted(.iso8601)
    }

    /// The time as a date of RFC 3339 with as many digits as it has; nil as with `date`.
    var exactDate: String? {
        guard let date, let parts else { return nil }
        var digits = "\(String(parts.nanoseconds + 1_000_000_000).dropFirst())"
        while digits.last == "0" { digits.removeLast() }
        return digits.isEmpty ? date : "\(date.dropLast()).\(digits)Z"
    }
}
