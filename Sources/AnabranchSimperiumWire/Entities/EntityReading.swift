import AnabranchCore
import AnabranchSimperium

/// The members of an entity.
typealias EntityBody = [JSONName: JSONValue]

extension ObjectGraph {
    /// The members of the entity with a key; nil if there is none.
    func entity(_ key: String, of bucket: Bucket) throws(ApplyError) -> EntityBody? {
        guard let schema = schema(ofClass: bucket.className),
            let object = try object(ObjectReference(classID: schema.number, key: .string(Array(key.utf8))))
        else { return nil }
        return entity(object, of: schema)
    }

    /// The members of an object of a bucket's class.
    func entity(_ object: StateObject, of schema: ClassSchema) -> EntityBody {
        var body: EntityBody = [:]
        if let property = schema.property(named: Array(BucketForm.body.utf8)),
            case .dictionary(let members) = object.value(of: property)
        {
            for (key, value) in zip(members.keys, members.values) {
                body[JSONName(MemberName.unescaped(key))] = JSONValue(value)
            }
        }
        // A member that two devices have written in different ways at once may be in both.
        if let property = schema.property(named: Array(BucketForm.nested.utf8)),
            case .dictionary(let members) = object.value(of: property)
        {
            for (key, value) in zip(members.keys, members.values) {
                guard case .string(let text) = value else { continue }
                let json = try? JSONValue(parsing: text).normalized()
                body[JSONName(MemberName.unescaped(key))] = json ?? .string(String(decoding: text, as: UTF8.self))
            }
        }
        return body
    }
}

extension JSONValue {
    /// The value of a Mixed as clients of this wire see it. One that JSON has no value for is its text.
    fileprivate init(_ value: StateValue) {
        switch value {
        case .null, .object: self = .null
        case .int(let number): self = .integer(number)
        case .bool(let flag): self = .bool(flag)
        case .string(let text): self = .string(String(decoding: text, as: UTF8.self))
        case .float(let number): self = JSONValue(number: Double(number))
        case .double(let number): self = JSONValue(number: number)
        case .binary(let bytes): self = .string(Hex.encode(bytes))
        case .timestamp(let time): self = .string(time.description)
        case .decimal(let number): self = .string(number.description)
        case .objectID(let ident): self = .string(ident.description)
        case .uuid(let ident): self = .string(ident.description)
        case .link(let object): self = .string("\(object.key)")
        case .list(let list): self = .array(list.values.map(JSONValue.init))
        case .set(let elements): self = .array(elements.values.map(JSONValue.init))
        case .dictionary(let entries):
            self = .object(
                Dictionary(
                    zip(entries.keys, entries.values).map { key, value in
                        (JSONName(MemberName.unescaped(key)), JSONValue(value))
                    }
                ) { _, last in last })
        }
    }

    private init(number: Double) {
        self = number.isFinite ? (try? JSONValue.real(number).normalized()) ?? .null : .null
    }
}
