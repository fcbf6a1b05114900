import AnabranchCore
import AnabranchQuery

/// A schema and objects as JSON, in the form of canonical states (`Spec/State.md`, part E).
struct CanonicalState {
    /// The classes by name: `primary_key` as name and type or `embedded`, and `columns` with `type`, `kind`, `nullable`
    /// and `target`.
    let schema: [String: JSONValue]
    /// The objects by class name: pairs of a primary key and fields.
    let objects: [String: JSONValue]

    func graph() throws -> ObjectGraph {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { transaction in
            for (name, json) in schema.sorted(by: { $0.key < $1.key }) { try addClass(name, json, in: transaction) }
            for (name, json) in schema.sorted(by: { $0.key < $1.key }) { try addColumns(name, json, in: transaction) }
            for (name, json) in objects {
                for object in json.array ?? [] { try transaction.create(name, key: try key(object)) }
            }
            for (name, json) in objects {
                for object in json.array ?? [] {
                    let created = try transaction.create(name, key: try key(object))
                    try write(object.array?.last?.object ?? [:], to: created, of: name)
                }
            }
        }
        return graph
    }

    // MARK: Schema

    private func addClass(_ name: String, _ json: JSONValue, in transaction: WriteTransaction) throws {
        guard let key = json["primary_key"]?.array else { return try transaction.addEmbeddedClass(name) }
        guard key.count == 2, let field = key[0].string else { throw InputError(description: "no primary key") }
        try transaction.addClass(name, key: field, try type(key[1].string))
    }

    private func addColumns(_ name: String, _ json: JSONValue, in transaction: WriteTransaction) throws {
        for (field, column) in try json.member("columns", \.object).sorted(by: { $0.key < $1.key }) {
            let collection = try collection(column["kind"]?.string)
            if column["type"] == "link" {
                let target = try column.member("target", \.string)
                try transaction.addLink(field, to: target, collection: collection, of: name)
            } else {
                try transaction.addColumn(
                    field, try type(column["type"]?.string), isNullable: column["nullable"]?.bool ?? false,
                    collection: collection, to: name)
            }
        }
    }

    private func type(_ name: String?) throws(InputError) -> PayloadType {
        let types: [String: PayloadType] = [
            "int": .int, "bool": .bool, "string": .string, "binary": .binary, "timestamp": .timestamp, "float": .float,
            "double": .double, "decimal": .decimal, "objectid": .objectID, "uuid": .uuid, "mixed": .null,
        ]
        guard let type = types[name ?? ""] else { throw InputError(description: "no type: \(name ?? "nothing")") }
        return type
    }

    private func collection(_ name: String?) throws(InputError) -> CollectionType {
        let kinds: [String: CollectionType] = [
            "single": .single, "list": .list, "set": .set, "dictionary": .dictionary,
        ]
        guard let kind = kinds[name ?? ""] else { throw InputError(description: "no kind: \(name ?? "nothing")") }
        return kind
    }

    // MARK: Objects

    private func key(_ object: JSONValue) throws(InputError) -> PrimaryKey {
        try CanonicalValue.key(object.array?.first ?? .null)
    }

    private func write(_ fields: [String: JSONValue], to object: DynamicObject, of className: String) throws {
        for (field, json) in fields {
            guard let column = schema[className]?["columns"]?[field] else {
                throw InputError(description: "\(className) has no column \(field)")
            }
            let target = column["target"]?.string ?? ""
            let isEmbedded = schema[target]?["embedded"]?.bool == true
            switch column["kind"]?.string {
            case "list":
                let list = try object.list(field)
                for element in json["list"]?.array ?? [] {
                    if isEmbedded {
                        try write(element.object ?? [:], to: list.appendObject(), of: target)
                    } else {
                        try list.append(element)
                    }
                }
            case "set":
                let set = try object.set(field)
                for element in json["set"]?.array ?? [] { try set.insert(try CanonicalValue.payload(element)) }
            case "dictionary":
                let dictionary = try object.dictionary(field)
                for (key, value) in json["dict"]?.object ?? [:] {
                    if isEmbedded, value != .null {
                        try write(value.object ?? [:], to: dictionary.createObject(for: key), of: target)
                    } else {
                        try dictionary.set(value, for: key)
                    }
                }
            default:
                if isEmbedded {
                    if json != .null { try write(json.object ?? [:], to: object.createObject(field), of: target) }
                } else {
                    try object.set(field, json)
                }
            }
        }
    }
}

// Values of Mixed may be collections of others.

extension DynamicObject {
    fileprivate func set(_ field: String, _ json: JSONValue) throws {
        try set(field, to: try CanonicalValue.payload(json))
        if let elements = json["list"]?.array { try list(field).fill(elements) }
        if let entries = json["dict"]?.object { try dictionary(field).fill(entries) }
    }
}

extension DynamicList {
    fileprivate func append(_ json: JSONValue) throws {
        let index = try count
        try append(try CanonicalValue.payload(json))
        if let elements = json["list"]?.array { try list(at: index).fill(elements) }
        if let entries = json["dict"]?.object { try dictionary(at: index).fill(entries) }
    }

    fileprivate func fill(_ elements: [JSONValue]) throws { for element in elements { try append(element) } }
}

extension DynamicDictionary {
    fileprivate func set(_ json: JSONValue, for key: String) throws {
        try set(try CanonicalValue.payload(json), for: key)
        if let elements = json["list"]?.array { try list(for: key).fill(elements) }
        if let entries = json["dict"]?.object { try dictionary(for: key).fill(entries) }
    }

    fileprivate func fill(_ entries: [String: JSONValue]) throws {
        for (key, value) in entries { try set(value, for: key) }
    }
}

/// Reads values as `JSONText.append` writes them.
enum CanonicalValue {
    static func key(_ json: JSONValue) throws(InputError) -> PrimaryKey {
        switch try payload(json) {
        case .null: return .null
        case .int(let value): return .int(value)
        case .string(let value): return .string(value)
        case .objectID(let value): return .objectID(value)
        case .uuid(let value): return .uuid(value)
        default: throw InputError(description: "no primary key: \(json.encoded)")
        }
    }

    /// A value; for a collection, its kind.
    static func payload(_ json: JSONValue) throws(InputError) -> Payload {
        switch json {
        case .null: return .null
        case .bool(let value): return .bool(value)
        case .string(let value): return .string(Array(value.utf8))
        case .object(let members):
            guard members.count == 1, let (kind, value) = members.first, let payload = try payload(kind.text, value)
            else {
                throw InputError(description: "no value: \(json.encoded)")
            }
            return payload
        default: throw InputError(description: "no value: \(json.encoded)")
        }
    }

    private static func payload(_ kind: String, _ json: JSONValue) throws(InputError) -> Payload? {
        switch (kind, json) {
        case ("int", .string(let text)): return Int64(text).map(Payload.int)
        case ("bin", .string(let text)): return Hex.decode(text).map(Payload.binary)
        case ("float", .string(let text)): return UInt32(text, radix: 16).map { .float(Float(bitPattern: $0)) }
        case ("double", .string(let text)): return UInt64(text, radix: 16).map { .double(Double(bitPattern: $0)) }
        case ("dec", .string(let text)): return Decimal128(text: Array(text.utf8)).map(Payload.decimal)
        case ("oid", .string(let text)): return Hex.decode(text).flatMap { ObjectID($0) }.map(Payload.objectID)
        case ("uuid", .string(let text)):
            return Hex.decode(text.filter { $0 != "-" }).flatMap { UUIDBytes($0) }.map(Payload.uuid)
        case ("ts", .array(let parts)):
            guard parts.count == 2, let seconds = parts[0].string.flatMap(Int64.init),
                let nanoseconds = parts[1].integer.flatMap(Int32.init(exactly:))
            else { return nil }
            return .timestamp(Timestamp(seconds: seconds, nanoseconds: nanoseconds))
        case ("link", .array(let parts)):
            guard parts.count == 2, let name = parts[0].string else { return nil }
            return .link(className: Array(name.utf8), key: try key(parts[1]))
        case ("list", _): return .list
        case ("dict", _): return .dictionary
        default: return nil
        }
    }
}
