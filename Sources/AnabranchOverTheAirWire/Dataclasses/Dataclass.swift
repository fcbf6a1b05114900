package import AnabranchCore

/// A set of entities that refer to one another and to nothing else, as an operator registers it
/// (`Spec/OverTheAirServer.md`, section 2).
package struct Dataclass: Equatable, Sendable {
    package struct Field: Equatable, Sendable {
        package var property: String
        package var type: FieldType
    }

    package struct Relationship: Equatable, Sendable {
        package var property: String
        package var entity: String
        package var isMany: Bool
    }

    package struct Entity: Equatable, Sendable {
        package var name: String
        package var className: String
        package var key: String
        package var keyType: PayloadType
        /// The alternatives by which records are known again, each a list of fields.
        package var identities: [[String]] = []
        package var fields: [String: Field] = [:]
        package var relationships: [String: Relationship] = [:]
        /// The relationship, and the field, that filters look at.
        package var container: String?
        package var date: String?

        func has(_ name: String) -> Bool { fields[exactly: name] != nil || relationships[exactly: name] != nil }
    }

    package let uri: String
    /// Targets of relationships before those that refer to them, but for cycles.
    package let entities: [Entity]
    /// True if devices get the values that have lost against theirs, to choose from.
    package let tellsConflicts: Bool
    /// True if changes of a device are merged when it says so.
    package let isCommittedByDevice: Bool
    /// A number that is another one if anything about the dataclass is.
    package let stamp: UInt64

    init(
        uri: String, entities: [Entity], tellsConflicts: Bool = false, isCommittedByDevice: Bool = false,
        text: some Sequence<UInt8>
    ) {
        self.uri = uri
        (self.tellsConflicts, self.isCommittedByDevice) = (tellsConflicts, isCommittedByDevice)
        self.entities = Self.sorted(entities)
        stamp = Self.stamp(of: text)
    }

    /// FNV-1a: it stands in records, so it is the same in every process.
    static func stamp(of text: some Sequence<UInt8>) -> UInt64 {
        text.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }

    /// The reason why it cannot be served together with others; nil if it can.
    package func conflict(with others: [Dataclass]) -> String? {
        for other in others {
            if other.uri == uri { return "/dataclass: \(uri) is registered twice" }
            for entity in entities where other.entities.contains(where: { $0.className == entity.className }) {
                return "/entities/\(entity.name)/class: \(entity.className) is in the dataclass \(other.uri) too"
            }
        }
        return nil
    }

    func index(ofEntity name: String) -> Int? { entities.firstIndex { $0.name.hasBytes(of: name) } }

    private static func sorted(_ entities: [Entity]) -> [Entity] {
        var sorted: [Entity] = [], seen: Set<String> = []
        func visit(_ entity: Entity) {
            guard seen.insert(entity.name).inserted else { return }
            for target in Set(entity.relationships.values.map(\.entity)).sorted() {
                if let target = entities.first(where: { $0.name == target }) { visit(target) }
            }
            sorted.append(entity)
        }
        for entity in entities.sorted(by: { $0.name < $1.name }) { visit(entity) }
        return sorted
    }
}

/// The mistake in the file of a dataclass.
package struct DataclassError: Error, Equatable, CustomStringConvertible {
    /// The keys that lead to it, as `/entities/contact/class`.
    package var place: String
    package var reason: String

    package var description: String { "\(place): \(reason)" }
}

// MARK: - The file

extension Dataclass {
    /// Reads the file with which an operator registers a dataclass.
    package init(parsing bytes: [UInt8]) throws(DataclassError) {
        let root: JSONValue
        do { root = try JSONValue(parsing: bytes) } catch {
            throw DataclassError(place: "/", reason: "it is not JSON: \(error)")
        }
        let file = try Members(root, at: "", ["dataclass", "entities", "commit", "conflicts"])
        let uri = try file.text("dataclass")
        func isDevices(_ key: String) throws(DataclassError) -> Bool {
            switch try file.text(key, or: "server") {
            case "server": return false
            case "device": return true
            default: throw DataclassError(place: "/\(key)", reason: "allowed: server, device")
            }
        }
        let isCommittedByDevice = try isDevices("commit"), tellsConflicts = try isDevices("conflicts")
        let all = try file.members("entities")
        guard !all.isEmpty else { throw DataclassError(place: "/entities", reason: "there are none") }
        var entities: [Entity] = []
        for name in all.keys.sorted() {
            guard let value = all[name] else { continue }
            guard !name.contains("/"), !name.isEmpty else {
                throw DataclassError(place: "/entities/\(name)", reason: "a name is not empty and has no slash")
            }
            entities.append(try Entity(name, value, at: "/entities/\(name)"))
        }
        for entity in entities {
            let place = "/entities/\(entity.name)"
            for (name, relationship) in entity.relationships
            where !entities.contains(where: { $0.name == relationship.entity }) {
                throw DataclassError(
                    place: "\(place)/relationships/\(name)/entity",
                    reason: "\(relationship.entity) is not an entity of this dataclass")
            }
            guard entities.count(where: { $0.className == entity.className }) == 1 else {
                throw DataclassError(place: "\(place)/class", reason: "\(entity.className) is another entity's too")
            }
        }
        self.init(
            uri: uri, entities: entities, tellsConflicts: tellsConflicts, isCommittedByDevice: isCommittedByDevice,
            text: bytes)
    }
}

extension Dataclass.Entity {
    fileprivate init(_ name: String, _ value: JSONValue, at place: String) throws(DataclassError) {
        let known = ["class", "key", "key_type", "identity", "fields", "relationships", "container", "date"]
        let file = try Members(value, at: place, known)
        self.name = name
        (className, key) = (try file.text("class"), try file.text("key", or: "_id"))
        let keyTypes: [String: PayloadType] = ["uuid": .uuid, "objectId": .objectID, "string": .string, "int": .int]
        guard let keyType = keyTypes[try file.text("key_type", or: "uuid")] else {
            throw DataclassError(place: "\(place)/key_type", reason: "allowed: uuid, objectId, string, int")
        }
        self.keyType = keyType
        for (name, value) in try file.members("fields") {
            let field = try Members(value, at: "\(place)/fields/\(name)", ["property", "type"])
            guard let type = FieldType(rawValue: try field.text("type")) else {
                throw DataclassError(
                    place: "\(field.place)/type",
                    reason: "allowed: " + FieldType.allCases.map(\.rawValue).joined(separator: ", "))
            }
            fields[name] = .init(property: try field.text("property"), type: type)
        }
        for (name, value) in try file.members("relationships", isOptional: true) {
            let place = "\(place)/relationships/\(name)"
            let relationship = try Members(value, at: place, ["property", "entity", "many"])
            guard fields[name] == nil else { throw DataclassError(place: place, reason: "a field has that name") }
            relationships[name] = .init(
                property: try relationship.text("property"), entity: try relationship.text("entity"),
                isMany: try relationship.flag("many"))
        }
        let properties = fields.values.map(\.property) + relationships.values.map(\.property) + [key]
        guard Set(properties).count == properties.count else {
            throw DataclassError(place: place, reason: "two fields have one property")
        }
        for (index, identity) in try file.array("identity").enumerated() {
            let names = identity.array?.compactMap(\.string) ?? []
            guard !names.isEmpty, names.count == identity.array?.count,
                names.allSatisfy({ fields[exactly: $0] != nil })
            else {
                throw DataclassError(place: "\(place)/identity/\(index)", reason: "it is not a list of fields")
            }
            identities.append(names)
        }
        container = try file.text("container", or: "")
        if container == "" { container = nil }
        if let container, relationships[exactly: container] == nil {
            throw DataclassError(place: "\(place)/container", reason: "\(container) is not a relationship")
        }
        date = try file.text("date", or: "")
        if date == "" { date = nil }
        if let date, fields[exactly: date]?.type != .date {
            throw DataclassError(place: "\(place)/date", reason: "\(date) is not a field of the type date")
        }
    }
}

/// The members of an object of the file.
private struct Members {
    let place: String
    private let members: [String: JSONValue]

    init(_ value: JSONValue, at place: String, _ known: [String]) throws(DataclassError) {
        guard let members = value.object else {
            throw DataclassError(place: place.isEmpty ? "/" : place, reason: "it is no object")
        }
        (self.place, self.members) = (place, members)
        if let unknown = members.keys.sorted().first(where: { !known.contains($0) }) {
            throw DataclassError(
                place: "\(place)/\(unknown)", reason: "unknown; allowed: \(known.joined(separator: ", "))")
        }
    }

    func text(_ key: String, or other: String? = nil) throws(DataclassError) -> String {
        switch (members[key], other) {
        case (.string(let text)?, _) where !text.isEmpty: return text
        case (nil, let other?): return other
        case (nil, nil): throw DataclassError(place: "\(place)/\(key)", reason: "missing")
        default: throw DataclassError(place: "\(place)/\(key)", reason: "it is not text, or empty")
        }
    }

    func flag(_ key: String) throws(DataclassError) -> Bool {
        guard let value = members[key] else { return false }
        guard let flag = value.bool else {
            throw DataclassError(place: "\(place)/\(key)", reason: "neither true nor false")
        }
        return flag
    }

    func members(_ key: String, isOptional: Bool = false) throws(DataclassError) -> [String: JSONValue] {
        if isOptional, members[key] == nil { return [:] }
        guard let object = members[key]?.object else {
            throw DataclassError(place: "\(place)/\(key)", reason: members[key] == nil ? "missing" : "it is no object")
        }
        return object
    }

    func array(_ key: String) throws(DataclassError) -> [JSONValue] {
        guard let value = members[key] else { return [] }
        guard let array = value.array else {
            throw DataclassError(place: "\(place)/\(key)", reason: "it is not a list")
        }
        return array
    }
}
