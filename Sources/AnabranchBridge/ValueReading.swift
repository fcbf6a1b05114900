#if canImport(CLibPQ)
import AnabranchCore

/// Values of columns, which PostgreSQL has written as JSON, in the form in which objects are imported
/// (`Spec/Bridge.md`, section 3; `Spec/Export.md`, section 2).
struct ValueReading {
    /// The reason why a property cannot hold a value.
    struct Unfit: Error { let reason: String }

    private let state: ObjectGraph
    private var schemas: [ClassID: ClassSchema] = [:]

    init(_ state: ObjectGraph) {
        self.state = state
        for schema in state.classes { schemas[schema.number] = schema }
    }

    /// The value for a property.
    func exported(_ json: JSONValue, _ property: Property) throws(Unfit) -> JSONValue {
        switch property.collection {
        case .single: return try element(json, property)
        case .list, .set:
            let name = property.collection == .set ? "set" : "list"
            if case .null = json { return .object([name: .array([])]) }
            guard let elements = json.array else { throw Unfit(reason: "no array") }
            return .object([name: .array(try elements.map { json throws(Unfit) in try element(json, property) })])
        case .dictionary:
            if case .null = json { return .object(["dict": .object([:] as [JSONName: JSONValue])]) }
            guard let members = json.members else { throw Unfit(reason: "no JSON object") }
            var entries: [JSONName: JSONValue] = [:]
            for (name, value) in members { entries[name] = try element(value, property) }
            return .object(["dict": .object(entries)])
        }
    }

    private func element(_ json: JSONValue, _ property: Property) throws(Unfit) -> JSONValue {
        if property.type == .null { return any(json) }
        if case .null = json {
            guard property.isNullable || property.isEmbedded else { throw Unfit(reason: "null") }
            return .null
        }
        guard property.isEmbedded || property.type == .link else { return try scalar(json, property.type) }
        guard let target = property.target.flatMap({ schemas[$0] }) else { throw Unfit(reason: "no class") }
        if property.isEmbedded {
            guard let members = json.members else { throw Unfit(reason: "no JSON object") }
            var fields: [JSONName: JSONValue] = [:]
            for (name, value) in members {
                guard let field = target.property(named: Array(name.text.utf8)) else {
                    throw Unfit(reason: "the class \(String(decoding: target.name, as: UTF8.self)) has no \(name.text)")
                }
                fields[name] = try exported(value, field)
            }
            return .object(fields)
        }
        let key = try scalar(json, target.key?.type ?? .null)
        return ["link": [.string(String(decoding: target.name, as: UTF8.self)), key]]
    }

    private func scalar(_ json: JSONValue, _ type: PayloadType) throws(Unfit) -> JSONValue {
        switch (type, json) {
        case (.int, .integer(let value)): return ["int": .string("\(value)")]
        case (.bool, .bool): return json
        case (.string, .string(let text)):
            guard text.utf8.count <= Self.valueBytesMax else { throw Unfit(reason: "longer than an object can hold") }
            return json
        case (.binary, .string(let text)):
            guard text.hasPrefix("\\x"), text.utf8.count <= 2 * Self.valueBytesMax else { break }
            return ["bin": .string(String(text.dropFirst(2)))]
        case (.timestamp, .string(let text)):
            guard let time = Timestamp(sql: text) else { break }
            return ["ts": [.string("\(time.seconds)"), .integer(Int64(time.nanoseconds))]]
        case (.float, _):
            guard let number = Self.number(json) else { break }
            return ["float": .string(String(Float(number).bitPattern, radix: 16))]
        case (.double, _):
            guard let number = Self.number(json) else { break }
            return ["double": .string(String(number.bitPattern, radix: 16))]
        case (.decimal, .string(let text)):
            let names = ["Infinity": "Inf", "-Infinity": "-Inf"]
            guard let number = Decimal128(names[text] ?? text) else { break }
            return ["dec": .string("\(number)")]
        case (.objectID, .string(let text)):
            guard text.utf8.count == 24, Hex.decode(text) != nil else { break }
            return ["oid": .string(text.lowercased())]
        case (.uuid, .string(let text)):
            guard UUIDBytes(text: text) != nil else { break }
            return ["uuid": json]
        default: break
        }
        throw Unfit(reason: "\(json.excerpt) is not of type \(type)")
    }

    /// The longest text or data that an object can hold, in bytes.
    private static let valueBytesMax = 16_777_207

    private static func number(_ json: JSONValue) -> Double? {
        switch json {
        case .integer(let value): Double(value)
        case .largeInteger(let digits): Double(digits)
        case .real(let value): value
        case .string("NaN"): .nan
        case .string("Infinity"): .infinity
        case .string("-Infinity"): -.infinity
        default: nil
        }
    }

    /// A value of which JSON says the type.
    private func any(_ json: JSONValue) -> JSONValue {
        switch json {
        case .null, .bool, .string: return json
        case .integer(let value): return ["int": .string("\(value)")]
        case .largeInteger(let digits) where Decimal128(digits)?.largeIntegerText == digits:
            return ["dec": .string(digits)]
        case .largeInteger, .real:
            return ["double": .string(String((Self.number(json) ?? .nan).bitPattern, radix: 16))]
        case .array(let elements): return ["list": .array(elements.map(any))]
        case .object(let members):
            guard members.count == 1, let (name, value) = members.first, AnyValueNames.all.contains(name.text) else {
                return ["dict": .object(members.mapValues(any))]
            }
            switch (name.text, value) {
            case ("dict", .object(let members)): return ["dict": .object(members.mapValues(any))]
            case ("list", .array(let elements)): return ["list": .array(elements.map(any))]
            default: return json
            }
        }
    }
}

extension Decimal128 {
    /// The digits of a whole number beyond 64 bits, as JSON has it; nil for another number.
    var largeIntegerText: String? {
        guard let text, text.integer == nil, 0..<Self.digitsMax ~= text.exponent else { return nil }
        let digits = "\(text.significand)" + String(repeating: "0", count: text.exponent)
        return digits.utf8.count > Self.digitsMax ? nil : (text.isNegative ? "-" : "") + digits
    }

    /// The most digits that a decimal has.
    static let digitsMax = 34
}
#endif
