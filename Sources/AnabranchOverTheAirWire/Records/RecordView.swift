import AnabranchCore
import AnabranchPropertyList

/// A record of a dataclass: the number of its entity, and the key of its object.
struct RecordID: Hashable {
    var entity: Int
    var key: PrimaryKey
}

/// The fields of a record that have values, in the form for devices. Relationships are arrays of the server's ids.
typealias RecordFields = PropertyListDictionary

/// A record, if it is there.
struct KnownRecord {
    var fields: RecordFields?
}

/// A field or a relationship of an entity.
final class RecordPart: Sendable {
    enum Kind {
        case field(FieldType)
        /// To records of the entity with this number.
        case relationship(to: Int, isMany: Bool)
    }

    let name: String
    let kind: Kind
    /// The name of its property, and the property; nil if the class does not have it any more.
    let column: String, property: Property?

    init(name: String, kind: Kind, column: String, property: Property?) {
        (self.name, self.kind, self.column, self.property) = (name, kind, column, property)
    }

    var isField: Bool { if case .field = kind { true } else { false } }
    var isMany: Bool { if case .relationship(_, let isMany) = kind { isMany } else { false } }
}

/// Fields and relationships in the order of their names. Those of the fields of records come in this order.
struct OrderedParts {
    fileprivate var rest: ArraySlice<RecordPart>

    /// The next one with a name; nil if there is none.
    mutating func part(_ name: String) -> RecordPart? {
        guard let index = rest.firstIndex(where: { $0.name.hasBytes(of: name) }) else { return nil }
        defer { rest = rest[(index + 1)...] }
        return rest[index]
    }
}

/// The records of a dataclass in a state.
final class RecordView {
    let dataclass: Dataclass
    private let graph: ObjectGraph
    private let entities: [EntityView]
    /// True if fields have the links to records that are gone, too: those come again with their records.
    private let keepsLinks: Bool

    private struct EntityView {
        /// Nil if there is no such class, or it has no keys.
        let schema: ClassSchema?
        /// In the order of their names, as records have them.
        let parts: [RecordPart]
        /// A record to which nothing was written: columns that have no null have values.
        let initial: RecordFields

        init(_ entity: Dataclass.Entity, of dataclass: Dataclass, _ schema: ClassSchema?) {
            self.schema = schema?.key == nil ? nil : schema
            var parts: [RecordPart] = []
            func add(_ name: String, _ kind: RecordPart.Kind, _ column: String) {
                let property = schema?.property(named: Array(column.utf8))
                parts.append(RecordPart(name: name, kind: kind, column: column, property: property))
            }
            for (name, field) in entity.fields { add(name, .field(field.type), field.property) }
            for (name, relationship) in entity.relationships {
                guard let target = dataclass.index(ofEntity: relationship.entity) else { continue }
                add(name, .relationship(to: target, isMany: relationship.isMany), relationship.property)
            }
            parts.sort { ExactString($0.name) < ExactString($1.name) }
            self.parts = parts
            var initial: RecordFields = [:]
            for part in parts {
                guard case .field(let type) = part.kind, type.collection == .single else { continue }
                if part.property?.isNullable == false { initial[part.name] = type.initialTold }
            }
            self.initial = initial
        }
    }

    init(_ dataclass: Dataclass, _ graph: ObjectGraph, keepsLinks: Bool = false) {
        (self.dataclass, self.graph, self.keepsLinks) = (dataclass, graph, keepsLinks)
        entities = dataclass.entities.map {
            EntityView($0, of: dataclass, graph.schema(ofClass: Array($0.className.utf8)))
        }
    }

    /// The records of another state that has the same classes.
    init(_ other: RecordView, _ graph: ObjectGraph) {
        (dataclass, entities, keepsLinks) = (other.dataclass, other.entities, other.keepsLinks)
        self.graph = graph
    }

    /// The records of another view, with all their links.
    init(keepingLinksOf other: RecordView) {
        (dataclass, graph, entities, keepsLinks) = (other.dataclass, other.graph, other.entities, true)
    }

    func schema(of entity: Int) -> ClassSchema? { entities[entity].schema }

    /// The field or relationship of a name.
    func part(_ name: String, of entity: Int) -> RecordPart? {
        let parts = entities[entity].parts
        var (low, high) = (0, parts.count)
        while low < high {
            let middle = (low + high) / 2
            if parts[middle].name.precedes(name) { low = middle + 1 } else { high = middle }
        }
        return low < parts.count && parts[low].name.hasBytes(of: name) ? parts[low] : nil
    }

    /// The fields and relationships of an entity, for names that are asked for in their order.
    func parts(of entity: Int) -> OrderedParts { OrderedParts(rest: entities[entity].parts[...]) }

    /// A new record of an entity.
    func initial(of entity: Int) -> RecordFields { entities[entity].initial }

    // MARK: Records

    /// The object of a record, whether it exists or not; nil if its class does not.
    func reference(_ id: RecordID) -> ObjectReference? {
        entities[id.entity].schema.map { ObjectReference(classID: $0.number, key: id.key) }
    }

    func object(_ id: RecordID) throws(ApplyError) -> StateObject? {
        try reference(id).flatMap { reference throws(ApplyError) in try graph.object(reference) }
    }

    func record(_ id: RecordID) throws(ApplyError) -> RecordFields? {
        try object(id).map { object throws(ApplyError) in try record(object, of: id.entity) }
    }

    func record(_ object: StateObject, of entity: Int) throws(ApplyError) -> RecordFields {
        var fields: [(String, PropertyList)] = []
        for part in entities[entity].parts {
            guard let property = part.property else { continue }
            let value = object.value(of: property)
            switch part.kind {
            case .field(let type):
                if let told = type.told(value) { fields.append((part.name, told)) }
            case .relationship(let target, _):
                let ids = try ids(value, of: target)
                if !ids.isEmpty { fields.append((part.name, .array(ids))) }
            }
        }
        return RecordFields(fields) { $1 }
    }

    func contains(_ id: RecordID) throws(ApplyError) -> Bool {
        guard let reference = reference(id) else { return false }
        return try graph.contains(reference)
    }

    private static func references(_ value: StateValue) -> [ObjectReference] {
        switch value {
        case .link(let reference): [reference]
        case .list(let list): list.values.compactMap { if case .link(let reference) = $0 { reference } else { nil } }
        default: []
        }
    }

    /// The ids of the records that a link or a list of links leads to.
    private func ids(_ value: StateValue, of entity: Int) throws(ApplyError) -> [PropertyList] {
        var ids: [PropertyList] = []
        for reference in Self.references(value) {
            guard try keepsLinks ? true : graph.contains(reference) else { continue }
            if let id = text(of: RecordID(entity: entity, key: reference.key)) { ids.append(.string(id)) }
        }
        return ids
    }

    /// The records that may lead to some others, which may be gone.
    func owners(of ids: Set<RecordID>) throws(ApplyError) -> Set<RecordID> {
        var owners: Set<RecordID> = []
        for owner in try graph.owners(of: ids.compactMap(reference)) where owner.key != .null {
            for index in entities.indices where entities[index].schema?.number == owner.classID {
                owners.insert(RecordID(entity: index, key: owner.key))
            }
        }
        return owners
    }

    /// A record without its links to those for which `isThere` is false.
    func linking(
        _ record: RecordFields, of entity: Int, to isThere: (RecordID) throws -> Bool
    ) rethrows -> RecordFields {
        var left = record
        for part in entities[entity].parts {
            guard case .relationship(let target, _) = part.kind, let links = record[part.name]?.array else { continue }
            let kept = try links.filter { link in
                try link.string.flatMap { candidates($0, of: target).first }.map(isThere) ?? false
            }
            if kept.count < links.count { left[part.name] = kept.isEmpty ? nil : .array(kept) }
        }
        return left
    }

    /// Calls `body` with each record, entity by entity in their order.
    func forEach(_ body: (RecordID, StateObject) throws -> Void) throws {
        for (index, entity) in entities.enumerated() {
            guard let schema = entity.schema else { continue }
            var failure: (any Error)?
            try graph.forEachObject(of: schema.number, after: nil) { object throws(ApplyError) in
                guard let key = object.key, key != .null else { return true }
                do { try body(RecordID(entity: index, key: key), object) } catch { failure = error }
                return failure == nil
            }
            if let failure { throw failure }
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

    /// True if a device may give another record a text as its id: no record has it, and none is going to. Apps choose
    /// keys that are texts and integers, but not those that are random.
    func mayBeLocal(_ text: String) throws -> Bool {
        try candidates(text).allSatisfy { id in
            switch id.key {
            case .uuid, .objectID: try object(id) == nil
            default: false
            }
        }
    }

    private func key(_ text: String, of entity: Int) -> PrimaryKey? {
        func rest() -> Substring.UTF8View? {
            let prefix = dataclass.entities[entity].name + "/"
            return text.utf8.starts(with: prefix.utf8) ? text.utf8.dropFirst(prefix.utf8.count) : nil
        }
        switch entities[entity].schema?.key?.type ?? dataclass.entities[entity].keyType {
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
        switch entities[entity].schema?.key?.type ?? dataclass.entities[entity].keyType {
        case .objectID: return .objectID(ObjectID(secondsSince1970: UInt32(truncatingIfNeeded: high), rest: low))
        case .int: return .int(Int64(high >> 11))
        case .string: return .string(Array(UUIDBytes(bytes)?.description.utf8 ?? "".utf8))
        default: return UUIDBytes(bytes).map { .uuid($0) } ?? .null
        }
    }
}
