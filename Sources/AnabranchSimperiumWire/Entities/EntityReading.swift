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
        return try entity(object, of: schema, bucket.form)
    }

    /// The members of an object of a bucket's class; nil if it is not an entity.
    func entity(_ object: StateObject, of schema: ClassSchema, _ form: BucketForm) throws(ApplyError) -> EntityBody? {
        var reader = EntityReader(self)
        let body = try form == .typed ? reader.properties(of: object, schema) : reader.dictionaries(of: object, schema)
        return reader.isWithinLimits ? body : nil
    }
}

/// Reads members of entities out of objects (`Spec/Simperium.md`, section 7).
struct EntityReader {
    /// The most bytes of JSON that an object may have, about: those of the longest message, but for what stands around
    /// the object. A client of Realm's wire may write more, and a class may show many properties of an embedded object
    /// that takes a few bytes.
    static let objectBytesMax = 4_190_208

    private let graph: ObjectGraph
    private var bytesLeft = objectBytesMax
    private var schemas: [ClassID: ClassSchema] = [:]
    private var existence: [ObjectReference: Bool] = [:]

    init(_ graph: ObjectGraph) { self.graph = graph }

    /// False if the objects that were read are too large, or too deep, to be an entity: then not all was read.
    var isWithinLimits: Bool { bytesLeft >= 0 }

    private mutating func count(_ bytes: Int) { bytesLeft -= bytes }

    /// True if there may be a list or an object at this depth.
    private mutating func mayNest(_ depth: Int) -> Bool {
        if depth > JSONValue.depthMax { bytesLeft = -1 }
        return isWithinLimits
    }

    // MARK: Objects

    /// The members in the dictionaries of the forms `flat` and `deep`.
    mutating func dictionaries(of object: StateObject, _ schema: ClassSchema) throws(ApplyError) -> EntityBody {
        var body: EntityBody = [:]
        if let property = schema.property(named: Array(BucketForm.body.utf8)),
            case .dictionary(let members) = object.value(of: property)
        {
            for (key, value) in zip(members.keys, members.values) where isWithinLimits {
                count(key.count + 4)
                body[JSONName(MemberName.unescaped(key))] = try self.value(value, depth: 2)
            }
        }
        // A member that two devices have written in different ways at once may be in both.
        if let property = schema.property(named: Array(BucketForm.nested.utf8)),
            case .dictionary(let members) = object.value(of: property)
        {
            for (key, value) in zip(members.keys, members.values) where isWithinLimits {
                guard case .string(let text) = value else { continue }
                count(key.count + text.count + 4)
                let json = try? JSONValue(parsing: text, depthMax: JSONValue.depthMax - 1).normalized()
                body[JSONName(MemberName.unescaped(key))] = json ?? .string(String(decoding: text, as: UTF8.self))
            }
        }
        return body
    }

    /// The properties but for the primary key. One that is null does not become a member.
    /// - Parameter depth: how many values the members stand in.
    mutating func properties(
        of object: StateObject, _ schema: ClassSchema, depth: Int = 1
    ) throws(ApplyError) -> EntityBody {
        try members(of: schema) { reader, property throws(ApplyError) in
            try reader.value(object.value(of: property), depth: depth + 1)
        }
    }

    /// The members of a new object.
    mutating func initialMembers(of schema: ClassSchema) throws(ApplyError) -> EntityBody {
        try members(of: schema) { reader, property throws(ApplyError) in
            try reader.value(
                .initial(property.type, isNullable: property.isNullable, property.collection), depth: 2)
        }
    }

    private mutating func members(
        of schema: ClassSchema, _ value: (inout EntityReader, Property) throws(ApplyError) -> JSONValue
    ) throws(ApplyError) -> EntityBody {
        var body: EntityBody = [:]
        for property in schema.properties where isWithinLimits {
            let value = try value(&self, property)
            if case .null = value { continue }
            count(property.name.count + 4)
            body[JSONName(String(decoding: property.name, as: UTF8.self))] = value
        }
        return body
    }

    /// The schema of an embedded class.
    mutating func schema(of classID: ClassID) -> ClassSchema? {
        if schemas[classID] == nil { schemas[classID] = graph.schema(of: classID) }
        return schemas[classID]
    }

    // MARK: Values

    /// A value as clients of this wire see it. One that JSON has no value for is its text.
    private mutating func value(_ value: StateValue, depth: Int) throws(ApplyError) -> JSONValue {
        count(2)
        switch value {
        case .null: return .null
        case .int(let number): return .integer(number)
        case .bool(let flag): return .bool(flag)
        // The number that its shortest text says.
        case .float(let number): return JSONValue(number: Double("\(number)") ?? .nan)
        case .double(let number): return JSONValue(number: number)
        case .string(let text): return counted(String(decoding: text, as: UTF8.self))
        case .binary(let bytes): return counted(Base64.encode(bytes))
        case .timestamp(let time): return counted(time.rfc3339 ?? time.description)
        case .decimal(let number): return counted(number.description)
        case .objectID(let ident): return counted(ident.description)
        case .uuid(let ident): return counted(ident.description)
        case .link(let object): return try exists(object) ? object.key.text.map { counted($0) } ?? .null : .null
        case .list(let list): return .array(try values(list.values, depth))
        case .set(let elements): return .array(try values(elements.values, depth))
        case .dictionary(let entries):
            var members: EntityBody = [:]
            guard mayNest(depth) else { return .null }
            for (key, value) in zip(entries.keys, entries.values) where isWithinLimits {
                count(key.count)
                members[JSONName(MemberName.unescaped(key))] = try self.value(value, depth: depth + 1)
            }
            return .object(members)
        case .object(let object):
            guard mayNest(depth), let schema = schema(of: object.classID) else { return .null }
            return .object(try properties(of: object, schema, depth: depth))
        }
    }

    private mutating func values(_ elements: [StateValue], _ depth: Int) throws(ApplyError) -> [JSONValue] {
        var values: [JSONValue] = []
        guard mayNest(depth) else { return values }
        for element in elements where isWithinLimits { values.append(try value(element, depth: depth + 1)) }
        return values
    }

    private mutating func counted(_ text: String) -> JSONValue {
        // One byte is counted for every value. No more than in JSON: what a change may make is never too large.
        count(JSONValue.quotedBytes(of: text) - 1)
        return .string(text)
    }

    private mutating func exists(_ object: ObjectReference) throws(ApplyError) -> Bool {
        if let known = existence[object] { return known }
        let exists = try graph.contains(object)
        existence[object] = exists
        return exists
    }
}

extension JSONValue {
    /// A number; null for one that is not finite.
    fileprivate init(number: Double) {
        self = number.isFinite ? (try? JSONValue.real(number).normalized()) ?? .null : .null
    }
}

extension PrimaryKey {
    /// The key as links to the object tell it; nil for the key null.
    fileprivate var text: String? {
        switch self {
        case .null: nil
        case .int(let number): String(number)
        case .string(let text): String(decoding: text, as: UTF8.self)
        case .globalKey(let key): key.description
        case .objectID(let ident): ident.description
        case .uuid(let ident): ident.description
        }
    }
}
