import AnabranchCore
import AnabranchSimperium

/// Writes members of entities into the properties of objects, and into collections of Mixed, with few instructions
/// (`Spec/Simperium.md`, section 7).
struct PropertyWriter {
    private let transaction: WriteTransaction
    private let graph: ObjectGraph
    private var reader: EntityReader
    /// How many bytes of JSON embedded objects may show that nobody has sent: members that they have at first.
    private var bytesLeft: Int
    private var initials: [ClassID: (members: EntityBody, bytes: Int)] = [:]

    init(_ transaction: WriteTransaction, bytesMax: Int) {
        self.transaction = transaction
        graph = transaction.state
        reader = EntityReader(graph)
        bytesLeft = bytesMax
    }

    /// Makes an object have other members.
    /// - Parameters:
    ///   - old: what it has; nil if it has just been made, and then has what is not given at first.
    ///   - operations: the change by which the members become others.
    /// - Throws: `JSONDiffError` with the place for what the class does not take.
    mutating func write(
        _ new: EntityBody, over old: EntityBody?, by operations: ObjectDiff, to object: DynamicObject,
        _ schema: ClassSchema
    ) throws {
        guard let old else { return try fill(object, with: new, schema) }
        try write(new, over: old, by: operations, in: object, schema)
    }

    /// Writes a part of a value. What the class does not take of it is refused with its place.
    private mutating func write(
        at name: @autoclosure () -> String, _ body: (inout PropertyWriter) throws -> Void
    ) throws {
        do { try body(&self) } catch let error as JSONDiffError {
            throw error.within(name())
        } catch let error as ApplyError {
            if let refusal = JSONDiffError(error) { throw refusal.within(name()) }
            throw error
        }
    }

    // MARK: Objects

    private mutating func write(
        _ new: EntityBody, over old: EntityBody, by operations: ObjectDiff?, in object: DynamicObject,
        _ schema: ClassSchema
    ) throws {
        for name in Set(old.keys).union(new.keys).sorted() {
            if let before = old[name], let after = new[name], before.isSameJSON(as: after) { continue }
            try write(at: name.text) { writer in
                guard let property = schema.property(named: Array(name.utf8)) else {
                    throw JSONDiffError(.malformed, "the class \(String(excerptOf: schema.name)) has no such property")
                }
                guard !property.isKey else {
                    throw JSONDiffError(.malformed, "the primary key is the key of the entity, and no member")
                }
                try writer.write(new[name], over: old[name], by: operations?.members[name], in: property, of: object)
            }
        }
    }

    /// Writes the members of an object that has just been made.
    private mutating func fill(_ object: DynamicObject, with members: EntityBody, _ schema: ClassSchema) throws {
        if initials[schema.number] == nil {
            let members = try reader.initialMembers(of: schema)
            initials[schema.number] = (members, JSONValue.object(members).encoded.utf8.count)
        }
        guard let initial = initials[schema.number] else { return }
        bytesLeft -= initial.bytes
        guard bytesLeft >= 0 else {
            throw JSONDiffError(.tooLarge, "with what embedded objects have at first, the entity would be too large")
        }
        let new = initial.members.merging(members) { $1 }
        try write(new, over: initial.members, by: nil, in: object, schema)
    }

    private mutating func fill(_ object: DynamicObject?, with members: EntityBody, of classID: ClassID?) throws {
        guard let object, let schema = classID.flatMap({ reader.schema(of: $0) }) else { throw Self.noObject }
        try fill(object, with: members, schema)
    }

    // MARK: Properties

    private mutating func write(
        _ new: JSONValue?, over old: JSONValue?, by operation: JSONOperation?, in property: Property,
        of object: DynamicObject
    ) throws {
        let name = String(decoding: property.name, as: UTF8.self), type = PropertyType(property)
        switch (property.collection, new ?? .none(in: property.collection)) {
        case (.list, .array(let elements)):
            try write(elements, over: old?.array ?? [], type, in: try object.list(name))
        case (.set, .array(let elements)):
            try write(elements, over: old?.array ?? [], type, in: try object.set(name))
        case (.dictionary, .object(let entries)):
            try write(entries, over: old?.members ?? [:], type, in: try object.dictionary(name))
        case (.single, let value):
            if case .increment(.integer(let summand))? = operation, property.type == .int,
                case .integer(let number)? = old, value == .integer(number &+ summand)
            {
                return try object.add(summand, to: name)
            }
            let place = ValuePlace(name, of: object)
            guard new == nil else { return try write(value, over: old, by: operation, type, at: place) }
            if try place.value() != type.empty { try place.set(type.empty) }
        case (let collection, let value):
            let demand = collection == .dictionary ? "an object" : "a list"
            throw JSONDiffError(.malformed, "\(demand) is needed, and there is \(value.excerpt)")
        }
    }

    private static let noObject = JSONDiffError(.malformed, "there is no object here that has members")

    /// Writes a value that is another one than before.
    private mutating func write(
        _ new: JSONValue, over old: JSONValue?, by operation: JSONOperation? = nil, _ type: PropertyType,
        at place: ValuePlace
    ) throws {
        switch (old, new) {
        case (.object(let before), .object(let after)) where type.isEmbedded:
            guard let object = try place.object(), let schema = type.target.flatMap({ reader.schema(of: $0) }) else {
                throw Self.noObject
            }
            var operations: ObjectDiff?
            if case .object(let diff)? = operation { operations = diff }
            try write(after, over: before, by: operations, in: object, schema)
        case (.object(let before), .object(let after)) where type.isMixed:
            try write(after, over: before, .mixed, in: try place.dictionary())
        case (.array(let before), .array(let after)) where type.isMixed:
            try write(after, over: before, .mixed, in: try place.list())
        default:
            let payload = try payload(new, type)
            // Two texts may say the same.
            guard try place.value().map({ !payload.isSame(as: $0) }) ?? true else { return }
            try place.set(payload)
            try fill(new, payload, type, at: place)
        }
    }

    /// Writes what is in an object or a collection that has just been made.
    private mutating func fill(
        _ value: JSONValue, _ payload: Payload, _ type: PropertyType, at place: ValuePlace
    ) throws {
        switch (payload, value) {
        case (.objectValue, .object(let members)): try fill(try place.object(), with: members, of: type.target)
        case (.list, .array(let elements)): try write(elements, over: [], .mixed, in: try place.list())
        case (.dictionary, .object(let entries)): try write(entries, over: [:], .mixed, in: try place.dictionary())
        default: break
        }
    }

    private func payload(_ value: JSONValue, _ type: PropertyType) throws -> Payload {
        try type.payload(value) { target, text in
            let schema = graph.schema(of: target)
            guard let key = PrimaryKey(text, of: schema?.key) else {
                throw JSONDiffError(.malformed, "\(String(excerptOf: text.utf8)) is no key of \(Self.name(of: schema))")
            }
            guard let object = try transaction.object(ObjectReference(classID: target, key: key)) else {
                throw JSONDiffError(.noTarget, "there is no object \(key) of \(Self.name(of: schema))")
            }
            return object.link
        }
    }

    private static func name(of schema: ClassSchema?) -> String {
        "the class \(schema.map { String(excerptOf: $0.name) } ?? "")"
    }

    // MARK: Collections

    private mutating func write(
        _ new: [JSONValue], over old: [JSONValue], _ type: PropertyType, in list: DynamicList
    ) throws {
        var (insertedCount, removedCount) = (0, 0)
        for (key, edit) in JSONOperation.edits(from: old, to: new).sorted(by: { $0.key < $1.key }) {
            let index = key - removedCount, place = ValuePlace(index, of: list)
            try write(at: String(index)) { writer in
                switch edit {
                case .add(let element):
                    let payload = try writer.payload(element, type)
                    try list.insert(payload, at: index)
                    try writer.fill(element, payload, type, at: place)
                    insertedCount += 1
                case .remove:
                    try list.remove(at: index)
                    removedCount += 1
                default: try writer.write(new[index], over: old[key - insertedCount], type, at: place)
                }
            }
        }
    }

    /// Makes a dictionary have other entries.
    /// - Parameter type: that of its values.
    mutating func write(
        _ new: EntityBody, over old: EntityBody, _ type: PropertyType, in dictionary: DynamicDictionary
    ) throws {
        for name in Set(old.keys).union(new.keys).sorted() {
            if let before = old[name], let after = new[name], before.isSameJSON(as: after) { continue }
            try write(at: name.text) { writer in
                let key = try MemberName.key(name.text, in: dictionary)
                if let value = new[name] {
                    try writer.write(value, over: old[name], type, at: ValuePlace(key, of: dictionary))
                } else {
                    try dictionary.remove(key)
                }
            }
        }
    }

    private mutating func write(
        _ new: [JSONValue], over old: [JSONValue], _ type: PropertyType, in set: DynamicSet
    ) throws {
        func texts(_ values: [JSONValue]) -> [ExactString] { values.map { ExactString($0.encoded) } }
        var (before, after) = (Set(texts(old)), Set(texts(new)))
        var gone = zip(texts(old), try set.values).filter { !after.contains($0.0) }.map(\.1)
        if gone.contains(.null), !type.isMixed {
            // No client can download that a null is taken out.
            try set.removeAll()
            (before, gone) = ([], [])
        }
        try set.subtract(gone)
        for (index, (element, text)) in zip(new, texts(new)).enumerated() where !before.contains(text) {
            try write(at: String(index)) { try set.insert(try $0.payload(element, type)) }
        }
    }
}

/// Where a value stands: in a property, a list or a dictionary.
private struct ValuePlace {
    let value: () throws(ApplyError) -> Payload?
    let set: (Payload) throws(ApplyError) -> Void
    let object: () throws(ApplyError) -> DynamicObject?
    let list: () throws(ApplyError) -> DynamicList
    let dictionary: () throws(ApplyError) -> DynamicDictionary

    init(_ name: String, of owner: DynamicObject) {
        value = { () throws(ApplyError) in try owner.value(name) }
        set = { payload throws(ApplyError) in try owner.set(name, to: payload) }
        object = { () throws(ApplyError) in try owner.object(name) }
        list = { () throws(ApplyError) in try owner.list(name) }
        dictionary = { () throws(ApplyError) in try owner.dictionary(name) }
    }

    init(_ index: Int, of owner: DynamicList) {
        value = { () throws(ApplyError) in try owner.value(at: index) }
        set = { payload throws(ApplyError) in try owner.set(payload, at: index) }
        object = { () throws(ApplyError) in try owner.object(at: index) }
        list = { () throws(ApplyError) in try owner.list(at: index) }
        dictionary = { () throws(ApplyError) in try owner.dictionary(at: index) }
    }

    init(_ key: String, of owner: DynamicDictionary) {
        value = { () throws(ApplyError) in try owner.value(for: key) }
        set = { payload throws(ApplyError) in try owner.set(payload, for: key) }
        object = { () throws(ApplyError) in try owner.object(for: key) }
        list = { () throws(ApplyError) in try owner.list(for: key) }
        dictionary = { () throws(ApplyError) in try owner.dictionary(for: key) }
    }
}

extension JSONValue {
    /// The value of an empty property of a kind.
    fileprivate static func none(in collection: CollectionType) -> JSONValue {
        switch collection {
        case .list, .set: .array([])
        case .dictionary: .object([:] as EntityBody)
        case .single: .null
        }
    }
}

extension Payload {
    /// True if both are the same value: 1.0 and 1.00 are one Decimal.
    fileprivate func isSame(as other: Payload) -> Bool {
        if case .decimal(let number) = self, case .decimal(let other) = other { return number.isEqualNumber(to: other) }
        return self == other
    }
}
