#if canImport(CLibPQ)
import AnabranchCore

/// Values of objects as JSON, from which PostgreSQL makes values of columns (`Spec/Bridge.md`, section 3).
struct ValueWriting {
    /// The classes of embedded objects.
    private var schemas: [ClassID: ClassSchema] = [:]

    init(_ state: ObjectGraph) { for schema in state.classes { schemas[schema.number] = schema } }

    /// Appends a value.
    /// - Parameter type: the property's; `null` for one that can hold any value, and then JSON says the type.
    func append(_ value: StateValue, _ type: PayloadType, to text: inout [UInt8]) {
        if type == .null { return append(any: value, to: &text) }
        switch value {
        case .null: text += "null".utf8
        case .int(let value): text += "\(value)".utf8
        case .bool(let value): text += "\(value)".utf8
        case .string(let bytes): JSONText.append(string: bytes, to: &text)
        case .binary(let bytes):
            text += "\"\\\\x".utf8
            Hex.append(bytes, to: &text)
            text.append(UInt8(ascii: "\""))
        case .timestamp(let time): append(quoted: time.sqlText, to: &text)
        case .float(let value): append(value, value.isFinite, value.isNaN, value < 0, to: &text)
        case .double(let value): append(value, value.isFinite, value.isNaN, value < 0, to: &text)
        case .decimal(let value): append(quoted: value.isNaN ? "NaN" : "\(value)", to: &text)
        case .objectID(let value): append(quoted: "\(value)", to: &text)
        case .uuid(let value): append(quoted: "\(value)", to: &text)
        case .link(let reference): append(StateValue(reference.key), .int, to: &text)
        case .object(let object): append(object, to: &text)
        case .list(let list): append(elements: list.values, type, to: &text)
        case .set(let set): append(elements: set.values, type, to: &text)
        case .dictionary(let entries):
            append(members: zip(entries.keys, entries.values).map { ($0, $1, type) }, to: &text)
        }
    }

    private func append(_ object: StateObject, to text: inout [UInt8]) {
        let properties = schemas[object.classID]?.properties ?? []
        append(members: properties.map { ($0.name, object.value(of: $0), $0.type) }, to: &text)
    }

    private func append(elements: [StateValue], _ type: PayloadType, to text: inout [UInt8]) {
        text.append(UInt8(ascii: "["))
        for (position, element) in elements.enumerated() {
            if position > 0 { text.append(UInt8(ascii: ",")) }
            append(element, type, to: &text)
        }
        text.append(UInt8(ascii: "]"))
    }

    private func append(members: [(name: [UInt8], value: StateValue, type: PayloadType)], to text: inout [UInt8]) {
        text.append(UInt8(ascii: "{"))
        for (position, member) in members.enumerated() {
            if position > 0 { text.append(UInt8(ascii: ",")) }
            JSONText.append(string: member.name, to: &text)
            text.append(UInt8(ascii: ":"))
            append(member.value, member.type, to: &text)
        }
        text.append(UInt8(ascii: "}"))
    }

    /// Appends a value whose type nothing else says: as JSON has it if that says the type, else with its name, as
    /// exports have it.
    private func append(any value: StateValue, to text: inout [UInt8]) {
        switch value {
        case .null, .bool, .string, .int: append(value, .int, to: &text)
        case .double(let number) where number.isFinite: text += Self.numberText(number).utf8
        case .list(let list): append(elements: list.values, .null, to: &text)
        case .set(let set): append(elements: set.values, .null, to: &text)
        case .dictionary(let entries):
            // One that looks like a value with the name of its type is written with the name of its own.
            let isTaken =
                entries.count == 1 && AnyValueNames.all.contains(String(decoding: entries.keys[0], as: UTF8.self))
            if isTaken { text += "{\"dict\":".utf8 }
            append(members: zip(entries.keys, entries.values).map { ($0, $1, .null) }, to: &text)
            if isTaken { text.append(UInt8(ascii: "}")) }
        case .object(let object): append(object, to: &text)
        case .link(let reference):
            guard let name = schemas[reference.classID]?.name else { return text += "null".utf8 }
            JSONText.append(Payload.link(className: name, key: reference.key), .exact, to: &text)
        case .double(let value): JSONText.append(Payload.double(value), .exact, to: &text)
        case .float(let value): JSONText.append(Payload.float(value), .exact, to: &text)
        case .binary(let value): JSONText.append(Payload.binary(value), .exact, to: &text)
        case .timestamp(let value): JSONText.append(Payload.timestamp(value), .exact, to: &text)
        case .decimal(let value):
            if let digits = value.largeIntegerText {
                text += digits.utf8
            } else {
                JSONText.append(Payload.decimal(value), .exact, to: &text)
            }
        case .objectID(let value): JSONText.append(Payload.objectID(value), .exact, to: &text)
        case .uuid(let value): JSONText.append(Payload.uuid(value), .exact, to: &text)
        }
    }

    /// A number that any reader takes for a double: one that `jsonb` shows with a point.
    private static func numberText(_ number: Double) -> String {
        let text = "\(number)"
        guard let exponent = text.firstIndex(of: "e"), let places = Int(text[text.index(after: exponent)...]),
            places > 0
        else { return text }
        let parts = text[..<exponent].split(separator: ".")
        let digits = parts.count > 1 && parts[1] != "0" ? parts[1] : ""
        return parts[0] + digits + String(repeating: "0", count: max(0, places - digits.count)) + ".0"
    }

    private func append(quoted value: String, to text: inout [UInt8]) { JSONText.append(string: value.utf8, to: &text) }

    private func append(
        _ value: some CustomStringConvertible, _ isFinite: Bool, _ isNaN: Bool, _ isNegative: Bool,
        to text: inout [UInt8]
    ) {
        if isFinite {
            text += "\(value)".utf8
        } else {
            append(quoted: isNaN ? "NaN" : isNegative ? "-Infinity" : "Infinity", to: &text)
        }
    }
}

/// The names that JSON gives to the types of values that it has not itself.
enum AnyValueNames {
    static let all: Set = [
        "int", "bytes", "bin", "ts", "float", "double", "dec", "oid", "uuid", "link", "list", "dict",
    ]
}

extension Timestamp {
    /// The whole microseconds that are nearest, as seconds towards the past and the rest.
    private var microseconds: (seconds: Int64, rest: Int64) {
        var seconds = seconds, rest = (Int64(nanoseconds) + (nanoseconds < 0 ? -500 : 500)) / 1000
        if rest < 0 { (seconds, rest) = (seconds &- 1, rest + 1_000_000) }
        if rest >= 1_000_000 { (seconds, rest) = (seconds &+ 1, rest - 1_000_000) }
        return (seconds, rest)
    }

    /// The time as SQL has it, to the microsecond, in UTC.
    var sqlText: String {
        let (seconds, rest) = microseconds
        let dayLength: Int64 = 86_400
        let (whole, left) = seconds.quotientAndRemainder(dividingBy: dayLength)
        let days = left < 0 ? whole - 1 : whole, second = left < 0 ? left + dayLength : left
        // Eras of 400 years, which begin on 1 March.
        let shifted = days + 719_468, era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153, day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        func digits(_ number: Int64, _ count: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
        }
        let date = "\(digits(year > 0 ? year : 1 - year, 4))-\(digits(month, 2))-\(digits(day, 2))"
        let clock = "\(digits(second / 3600, 2)):\(digits(second / 60 % 60, 2)):\(digits(second % 60, 2))"
        return "\(date)T\(clock)\(rest == 0 ? "" : ".\(digits(rest, 6))")+00:00\(year > 0 ? "" : " BC")"
    }

    /// The seconds of 400 years.
    private static let eraSeconds: Int64 = 146_097 * 86_400

    /// The time in a text that PostgreSQL has written as JSON; nil for one that no property can hold.
    init?(sql text: String) {
        let isBeforeChrist = text.hasSuffix(" BC"), text = text.dropLast(isBeforeChrist ? 3 : 0)
        guard let end = text.firstIndex(of: "-"), let number = Int64(text[..<end]) else { return nil }
        // The calendar repeats after 400 years, and the reader knows those from 2000 on.
        let year = isBeforeChrist ? 1 - number : number, known = 2000 + (year % 400 + 400) % 400
        var bytes = Array("\(known)\(text[end...])".utf8)
        if bytes.count == 10 { bytes += Array("T00:00:00".utf8) }
        if !bytes.dropFirst(10).contains(where: { "Zz+-".utf8.contains($0) }) { bytes.append(UInt8(ascii: "Z")) }
        guard let milliseconds = RFC3339.milliseconds(bytes) else { return nil }
        var seconds = milliseconds / 1000 + (year - known) / 400 * Self.eraSeconds
        var nanoseconds: Int64 = 0, unit: Int64 = 100_000_000
        if bytes.count > 19, bytes[19] == UInt8(ascii: ".") {
            for byte in bytes[20...] {
                guard 0x30...0x39 ~= byte else { break }
                nanoseconds += Int64(byte - 0x30) * unit
                unit /= 10
            }
        }
        // Both parts have one sign.
        if seconds < 0, nanoseconds > 0 { (seconds, nanoseconds) = (seconds + 1, nanoseconds - 1_000_000_000) }
        self.init(seconds: seconds, nanoseconds: Int32(nanoseconds))
    }
}
#endif
