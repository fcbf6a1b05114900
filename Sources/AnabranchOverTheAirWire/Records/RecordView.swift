import AnabranchCore
import AnabranchPropertyList

/// A record of a dataclass: the number of its entity, and the key of its object.
struct RecordID: Hashable {
    var entity: Int
    var key: PrimaryKey
}

/// The fields of a record that have values, in the form for devices. Relationships are arrays of the server's ids.
typealias RecordFields = PropertyListDictionary

/// The records of a dataclass in a state.
struct RecordView {
    let dataclass: Dataclass
    private let graph: ObjectGraph
    private let entities: [EntityView?]

    private struct EntityView {
        let schema: ClassSchema
        let fields: [(name: String, type: FieldType, property: Property)]
        let relationships: [(name: String, entity: Int, property: Property)]
    }

    init(_ dataclass: Dataclass, _ graph: ObjectGraph) {
        (self.dataclass, self.graph) = (dataclass, graph)
        entities = dataclass.entities.map { entity in
            guard let schema = graph.schema(ofClass: Array(entity.className.utf8)), schema.key != nil else {
                return nil
            }
            let fields = entity.fields.compactMap { name, field in
                schema.property(named: Array(field.property.utf8)).map { (name: name, type: field.type, property: $0) }
            }
            let relationships = entity.relationships.compactMap { name, relationship in
                let property = schema.property(named: Array(relationship.property.utf8))
                let target = dataclass.index(ofEntity: relationship.entity)
                return property.flatMap { property in target.map { (name: name, entity: $0, property: property) } }
            }
            return EntityView(schema: schema, fields: fields, relationships: relationships)
        }
    }

    func schema(of entity: Int) -> ClassSchema? { entities[entity]?.schema }

    func property(_ name: String, of entity: Int) -> Property? {
        entities[entity]?.fields.first { $0.name.hasBytes(of: name) }?.property
    }

    // MARK: Records

    func object(_ id: RecordID) throws(ApplyError) -> StateObject? {
        guard let schema = entities[id.entity]?.schema else { return nil }
        return try graph.object(ObjectReference(classID: schema.number, key: id.key))
    }

    func record(_ id: RecordID) throws(ApplyError) -> RecordFields? {
        try object(id).map { object throws(ApplyError) in try record(object, of: id.entity) }
    }

    func record(_ object: StateObject, of entity: Int) throws(ApplyError) -> RecordFields {
        guard let view = entities[entity] else { return [:] }
        var fields: [(String, PropertyList)] = []
        for (name, type, property) in view.fields {
            if let value = type.told(object.value(of: property)) { fields.append((name, value)) }
        }
        for (name, target, property) in view.relationships {
            var references: [ObjectReference] = []
            switch object.value(of: property) {
            case .link(let reference): references = [reference]
            case .list(let list):
                references = list.values.compactMap { if case .link(let reference) = $0 { reference } else { nil } }
            default: break
            }
            var ids: [PropertyList] = []
            for reference in references where try graph.object(reference) != nil {
                if let id = text(of: RecordID(entity: target, key: reference.key)) { ids.append(.string(id)) }
            }
            if !ids.isEmpty { fields.append((name, .array(ids))) }
        }
        return RecordFields(fields) { $1 }
    }

    /// Calls `body` with each record, entity by entity in their order.
    func forEach(_ body: (RecordID, StateObject) throws -> Void) throws {
        for index in entities.indices {
            guard let view = entities[index] else { continue }
            var objects: [StateObject] = []
            try graph.forEachObject(of: view.schema.number) { object throws(ApplyError) in objects.append(object) }
            for object in objects {
                guard let key = object.key, key != .null else { continue }
                try body(RecordID(entity: index, key: key), object)
            }
        }
    }

    // MARK: The server's ids

    /// The id by which devices know a record; nil for one that they cannot know.
    func text(of id: RecordID) -> String? {
        switch id.key {
        case .uuid(let key): key.description
        case .objectID(let key): key.description
        case .int(let key): "\(dataclass.entities[id.entity].name)/\(key)"
        case .string(let key):
            String(validating: key, as: UTF8.self).map { "\(dataclass.entities[id.entity].name)/\($0)" }
        case .null, .globalKey: nil
        }
    }

    /// The records that a text can be the id of, by the forms of keys alone.
    /// - Parameter entity: the only one that counts; nil for all.
    func candidates(_ text: String, of entity: Int? = nil) -> [RecordID] {
        entities.indices.compactMap { index in
            guard entity == nil || entity == index, let key = key(text, of: index) else { return nil }
            return RecordID(entity: index, key: key)
        }
    }

    private func key(_ text: String, of entity: Int) -> PrimaryKey? {
        let prefix = dataclass.entities[entity].name + "/"
        func rest() -> Substring.UTF8View? {
            text.utf8.starts(with: prefix.utf8) ? text.utf8.dropFirst(prefix.utf8.count) : nil
        }
        switch entities[entity]?.schema.key?.type ?? dataclass.entities[entity].keyType {
        case .uuid: return UUIDBytes(text: text).map { .uuid($0) }
        case .objectID: return ObjectID(text).map { .objectID($0) }
        case .int:
            return rest().flatMap { rest in
                Int64(Substring(rest)).flatMap { "\($0)".utf8.elementsEqual(rest) ? .int($0) : nil }
            }
        case .string: return rest().map { .string(Array($0)) }
        default: return nil
        }
    }

    /// The key of a new record, from 128 random bits.
    func newKey(of entity: Int, _ high: UInt64, _ low: UInt64) -> PrimaryKey {
        var bytes = withUnsafeBytes(of: (high, low)) { Array($0) }
        // Version 4 of the standard's variant.
        bytes[6] = bytes[6] & 0x0F | 0x40
        bytes[8] = bytes[8] & 0x3F | 0x80
        switch entities[entity]?.schema.key?.type ?? dataclass.entities[entity].keyType {
        case .objectID: return .objectID(ObjectID(secondsSince1970: UInt32(truncatingIfNeeded: high), rest: low))
        case .int: return .int(Int64(high >> 11))
        case .string: return .string(Array(UUIDBytes(bytes)?.description.utf8 ?? "".utf8))
        default: return UUIDBytes(bytes).map { .uuid($0) } ?? .null
        }
    }
}
