// Reads the values in lines of an export for the place where they are to stand (`Spec/Export.md`, section 2).

extension ExportedValue {
    /// - Parameter json: what the line says.
    init(_ json: JSONValue, at place: Place, in schema: Schema) throws(LineError) {
        switch place.collection {
        case .list: self = .list(try Self.elements(json["list"], at: place, in: schema))
        case .set: self.init(setOf: try Self.elements(json["set"], at: place, in: schema))
        case .dictionary: try self.init(entries: json["dict"], at: place, in: schema)
        case .single:
            if place.isEmbedded, let members = json.members {
                self = .object(try Self.fields(members, of: place.target, in: schema))
            } else if place.isMixed, let list = json["list"] {
                self = .list(try Self.elements(list, at: place, in: schema))
            } else if place.isMixed, let entries = json["dict"] {
                try self.init(entries: entries, at: place, in: schema)
            } else {
                guard let payload = Payload(exported: json) else { throw LineError(noValue: json) }
                self = .value(payload)
            }
        }
    }

    private init(entries: JSONValue?, at place: Place, in schema: Schema) throws(LineError) {
        guard let members = entries?.members else { throw LineError("a dictionary is written {\"dict\":{…}}") }
        var entries: [(key: [UInt8], value: ExportedValue)] = []
        for (key, json) in members {
            entries.append((Array(key.utf8), try ExportedValue(json, at: place.element, in: schema)))
        }
        self.init(dictionaryOf: entries)
    }

    private static func elements(
        _ json: JSONValue?, at place: Place, in schema: Schema
    ) throws(LineError) -> [ExportedValue] {
        guard let values = json?.array else {
            throw LineError("a collection is written {\"list\":[…]} or {\"set\":[…]}")
        }
        var elements: [ExportedValue] = []
        for value in values { elements.append(try ExportedValue(value, at: place.element, in: schema)) }
        return elements
    }

    /// All fields of an embedded object: those that the line does not have are the initial ones.
    private static func fields(
        _ members: [JSONName: JSONValue], of classID: ClassID, in schema: Schema
    ) throws(LineError) -> [(name: [UInt8], value: ExportedValue)] {
        let state = schema[classID]
        if let name = members.keys.first(where: { state.place(of: Array($0.utf8)) == nil }) {
            throw LineError("the class \(String(excerptOf: state.name)) has no field \(name)")
        }
        let columns = state.columns.compactMap { $0 }.sorted { $0.name.compare($1.name) < 0 }
        var fields: [(name: [UInt8], value: ExportedValue)] = []
        for column in columns {
            let name = JSONName(String(decoding: column.name, as: UTF8.self))
            do {
                let value =
                    try members[name].map { json throws(LineError) in
                        try ExportedValue(json, at: column.place, in: schema)
                    } ?? ExportedValue(column.initial, at: column.place, in: schema)
                fields.append((column.name, value))
            } catch let error as LineError {
                throw error
            } catch {
                throw LineError("\(error)")
            }
        }
        return fields
    }
}

extension Payload {
    /// - Returns: nil if the JSON is not a value.
    fileprivate init?(exported json: JSONValue) {
        switch json {
        case .null: self = .null
        case .bool(let value): self = .bool(value)
        case .string(let text): self = .string(Array(text.utf8))
        case .integer, .largeInteger, .real, .array: return nil
        case .object(var members):
            let bits = members.removeValue(forKey: "bits")
            guard members.count == 1, let (type, value) = members.first,
                let payload = Self.exported(type.text, value, bits)
            else { return nil }
            self = payload
        }
    }

    private static func exported(_ type: String, _ value: JSONValue, _ bits: JSONValue?) -> Payload? {
        switch (type, value) {
        case ("int", .string(let text)): return Int64(text).map(Payload.int)
        case ("bytes", .string(let text)): return Hex.decode(text).map(Payload.string)
        case ("bin", .string(let text)): return Hex.decode(text).map(Payload.binary)
        case ("ts", .array(let parts)): return timestamp(parts)
        case ("float", .string(let text)): return UInt32(text, radix: 16).map { .float(Float(bitPattern: $0)) }
        case ("double", .string(let text)): return UInt64(text, radix: 16).map { .double(Double(bitPattern: $0)) }
        case ("dec", .string(let text)):
            guard let bits else { return Decimal128(exactly: text).map(Payload.decimal) }
            return bits.string.flatMap(Hex.decode).flatMap { Decimal128(bytes: $0) }.map(Payload.decimal)
        case ("oid", .string(let text)): return Hex.decode(text).flatMap { ObjectID($0) }.map(Payload.objectID)
        case ("uuid", .string(let text)):
            return UUIDBytes(text: text).map(Payload.uuid)
        case ("link", .array(let parts)):
            guard parts.count == 2, let name = Payload(exported: parts[0]), case .string(let className) = name,
                let key = PrimaryKey(exported: parts[1])
            else { return nil }
            return .link(className: className, key: key)
        default: return nil
        }
    }

    private static func timestamp(_ parts: [JSONValue]) -> Payload? {
        guard parts.count == 2, let seconds = parts[0].string.flatMap({ Int64($0) }),
            let nanoseconds = parts[1].integer,
            nanoseconds.magnitude < 1_000_000_000,
            nanoseconds == 0 || seconds == 0 || (nanoseconds < 0) == (seconds < 0)
        else { return nil }
        return .timestamp(Timestamp(seconds: seconds, nanoseconds: Int32(nanoseconds)))
    }
}

extension StateValue {
    /// A value as an argument of a query: as lines have it, or a number as JSON has it.
    /// - Returns: nil if the JSON is not a value that a query can name.
    package init?(argument json: JSONValue) {
        switch json {
        case .integer(let value): self = .int(value)
        case .real(let value): self = .double(value)
        default:
            switch Payload(exported: json) {
            case .null: self = .null
            case .int(let value): self = .int(value)
            case .bool(let value): self = .bool(value)
            case .string(let value): self = .string(value)
            case .binary(let value): self = .binary(value)
            case .timestamp(let value): self = .timestamp(value)
            case .float(let value): self = .float(value)
            case .double(let value): self = .double(value)
            case .decimal(let value): self = .decimal(value)
            case .objectID(let value): self = .objectID(value)
            case .uuid(let value): self = .uuid(value)
            default: return nil
            }
        }
    }
}

extension PrimaryKey {
    /// - Returns: nil if the JSON is not a key.
    package init?(exported json: JSONValue) {
        if let text = json["gk"]?.string {
            let parts = text.split(separator: "-").map { UInt64($0, radix: 16) }
            guard parts.count == 2, let high = parts[0], let low = parts[1] else { return nil }
            self = .globalKey(GlobalKey(high: high, low: low))
        } else {
            guard let key = Payload(exported: json).flatMap({ PrimaryKey($0) }) else { return nil }
            self = key
        }
    }
}

extension Decimal128 {
    fileprivate init?(bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        let words = [bytes[..<8], bytes[8...]].map { $0.reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        self.init(low: words[1], high: words[0])
    }
}

extension JSONValue {
    package var excerpt: String { String(excerptOf: Array(encoded.utf8)) }
}
