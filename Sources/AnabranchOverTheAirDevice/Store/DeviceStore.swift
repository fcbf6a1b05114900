import AnabranchCore
import AnabranchPropertyList
import Foundation
import GRDB

/// The rows of a device: its records, what was edited, what is under way (`Spec/OverTheAirDevice.md`, section 3).
struct DeviceStore: Sendable {
    let queue: DatabaseQueue
    let options: DeviceOptions
    let dataclasses: [DeviceDataclass]

    /// The number of the layout, as `PRAGMA user_version` has it.
    private static let layout = 1
    /// "Aota": the file is a device's.
    private static let applicationID = 0x416F_7461

    /// - Parameter dataclasses: those that are synced; nil for those that the file has.
    init(path: String, dataclasses: [DeviceDataclass]?, options: DeviceOptions?) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(30)
        queue = try DatabaseQueue(path: path, configuration: configuration)
        (self.dataclasses, self.options) = try queue.write { rows in
            let count = try Int.fetchOne(rows, sql: "SELECT count(*) FROM sqlite_master") ?? 0
            let mark = try Int.fetchOne(rows, sql: "PRAGMA application_id"),
                layout = try Int.fetchOne(rows, sql: "PRAGMA user_version")
            if count == 0 {
                try rows.execute(sql: Self.schema)
                try rows.execute(sql: "PRAGMA application_id = \(Self.applicationID)")
                try rows.execute(sql: "PRAGMA user_version = \(Self.layout)")
            } else if mark != Self.applicationID || layout != Self.layout {
                throw DeviceError(.storeFailed, "\(path): no store of a device, or one of another version")
            }
            if let options { try rows.set("options", options.row) }
            if let dataclasses { try rows.set("dataclasses", .array(dataclasses.map(\.row))) }
            if try rows.value("device") == nil {
                try rows.set("device", .string("anabranch-" + Self.randomText()))
                try rows.set("options", (options ?? DeviceOptions()).row)
            }
            let known = try rows.value("dataclasses")?.array?.compactMap { DeviceDataclass($0) } ?? []
            return (known, DeviceOptions(try rows.value("options") ?? [:]))
        }
    }

    private static let schema = """
        CREATE TABLE device (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE record (
            uri TEXT, id TEXT, entity TEXT NOT NULL, fields BLOB NOT NULL, is_new INTEGER NOT NULL,
            PRIMARY KEY (uri, id)) WITHOUT ROWID;
        CREATE TABLE link (uri TEXT, target TEXT, source TEXT, PRIMARY KEY (uri, target, source)) WITHOUT ROWID;
        CREATE INDEX link_source ON link (uri, source);
        CREATE TABLE edit (
            uri TEXT, is_sent INTEGER, id TEXT, kind TEXT NOT NULL, entity TEXT NOT NULL, fields BLOB NOT NULL,
            PRIMARY KEY (uri, is_sent, id)) WITHOUT ROWID;
        CREATE TABLE sent (
            uri TEXT, ordinal INTEGER, form TEXT NOT NULL, id TEXT NOT NULL, item BLOB NOT NULL,
            PRIMARY KEY (uri, ordinal)) WITHOUT ROWID;
        CREATE INDEX sent_id ON sent (uri, id);
        CREATE TABLE server_id (
            uri TEXT, server TEXT, local TEXT NOT NULL, is_known INTEGER NOT NULL,
            PRIMARY KEY (uri, server)) WITHOUT ROWID;
        """

    static func randomText() -> String {
        var random = SystemRandomNumberGenerator()
        return (0..<2).map { _ in String(random.next() as UInt64, radix: 36) }.joined()
    }

    /// A new id of the device, which looks like none of the server's.
    static func newID() -> String { "L." + randomText() }

    /// True for an id that may be one of the server's: the key of an object. All others are the device's.
    static func isKey(_ id: String, _ dataclass: DeviceDataclass) -> Bool {
        UUIDBytes(text: id) != nil || ObjectID(id) != nil
            || dataclass.entities.contains { id.utf8.starts(with: "\($0.name)/".utf8) }
    }

    func dataclass(_ uri: String) throws -> DeviceDataclass {
        guard let dataclass = dataclasses.first(where: { $0.uri.hasBytes(of: uri) }) else {
            throw DeviceError(.badChange, "there is no dataclass \(uri); known: " + known(dataclasses.map(\.uri)))
        }
        return dataclass
    }

    func entity(_ name: String, _ dataclass: DeviceDataclass) throws -> DeviceDataclass.Entity {
        guard let entity = dataclass.entities.first(where: { $0.name.hasBytes(of: name) }) else {
            throw DeviceError(
                .badChange, "\(dataclass.uri) has no entity \(name); known: " + known(dataclass.entities.map(\.name)))
        }
        return entity
    }

    private func known(_ names: [String]) -> String { names.isEmpty ? "none" : names.joined(separator: ", ") }
}

// MARK: - Rows

/// The edits of a record since it was sent last.
struct LocalEdit {
    enum Kind: String {
        case add, modify, delete
    }

    var kind: Kind
    var entity: String
    /// The fields, of a modification.
    var fields: Set<ExactString> = []

    /// The two edits as one, of which this is the earlier one; nil if nothing is left.
    func followed(by next: LocalEdit) -> LocalEdit? {
        switch (kind, next.kind) {
        case (.add, .delete): nil
        case (.add, _), (.delete, _): self
        case (.modify, .modify): LocalEdit(kind: .modify, entity: entity, fields: fields.union(next.fields))
        case (.modify, _): next
        }
    }
}

extension Database {
    func value(_ key: String) throws -> PropertyList? {
        try Data.fetchOne(self, sql: "SELECT value FROM device WHERE key = ?", arguments: [key]).map { try $0.value }
    }

    func set(_ key: String, _ value: PropertyList?) throws {
        guard let value else { return try execute(sql: "DELETE FROM device WHERE key = ?", arguments: [key]) }
        try execute(sql: "INSERT OR REPLACE INTO device VALUES (?, ?)", arguments: [key, try value.row])
    }

    /// The state of the exchange of a dataclass.
    func state(_ uri: String) throws -> PropertyListDictionary { try value("state \(uri)")?.dictionary ?? [:] }

    func setState(_ uri: String, _ state: PropertyListDictionary) throws { try set("state \(uri)", .dictionary(state)) }

    func record(_ uri: String, _ id: String) throws -> (record: DeviceRecord, isNew: Bool)? {
        let row = try Row.fetchOne(
            self, sql: "SELECT id, entity, fields, is_new FROM record WHERE uri = ? AND id = ?", arguments: [uri, id])
        return try row.map { (try DeviceRecord($0), $0["is_new"]) }
    }

    func forEachRecord(_ uri: String, _ body: (DeviceRecord) throws -> Void) throws {
        let rows = try Row.fetchCursor(
            self, sql: "SELECT id, entity, fields FROM record WHERE uri = ? ORDER BY id", arguments: [uri])
        while let row = try rows.next() { try body(try DeviceRecord(row)) }
    }

    func setRecord(_ uri: String, _ record: DeviceRecord, isNew: Bool, _ entity: DeviceDataclass.Entity) throws {
        try execute(
            sql: "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?, ?)",
            arguments: [uri, record.id, record.entity, try PropertyList.dictionary(record.fields).row, isNew])
        try execute(sql: "DELETE FROM link WHERE uri = ? AND source = ?", arguments: [uri, record.id])
        for name in entity.relationships {
            for target in record.fields[name]?.array?.compactMap(\.string) ?? [] {
                try execute(
                    sql: "INSERT OR IGNORE INTO link VALUES (?, ?, ?)", arguments: [uri, target, record.id])
            }
        }
    }

    /// Erases records and the links to them. A record that has links to many of them is written once.
    func eraseRecords(_ ids: [String], of dataclass: DeviceDataclass) throws {
        let uri = dataclass.uri, gone = Set(ids.map { ExactString($0) })
        var sources: Set<ExactString> = []
        for id in ids {
            let sql = "SELECT source FROM link WHERE uri = ? AND target = ?"
            sources.formUnion(try String.fetchAll(self, sql: sql, arguments: [uri, id]).map { ExactString($0) })
        }
        for source in sources.subtracting(gone).sorted().map(\.text) {
            guard let (record, isNew) = try record(uri, source),
                let entity = dataclass.entities.first(where: { $0.name.hasBytes(of: record.entity) })
            else { continue }
            var fields = record.fields
            for name in entity.relationships {
                guard let links = fields[name]?.array else { continue }
                let left = links.filter { link in !(link.string.map { gone.contains(ExactString($0)) } ?? false) }
                fields[name] = left.isEmpty ? nil : .array(left)
            }
            let changed = DeviceRecord(id: source, entity: record.entity, fields: fields)
            try setRecord(uri, changed, isNew: isNew, entity)
        }
        for id in ids {
            try execute(sql: "DELETE FROM record WHERE uri = ? AND id = ?", arguments: [uri, id])
            try execute(sql: "DELETE FROM link WHERE uri = ? AND source = ?", arguments: [uri, id])
        }
    }

    /// - Parameter isSent: true for edits under the name that waits for an answer.
    func edit(_ uri: String, _ id: String, isSent: Bool) throws -> LocalEdit? {
        let row = try Row.fetchOne(
            self, sql: "SELECT * FROM edit WHERE uri = ? AND is_sent = ? AND id = ?", arguments: [uri, isSent, id])
        return try row.map { try LocalEdit($0) }
    }

    func edits(_ uri: String, isSent: Bool) throws -> [(id: String, edit: LocalEdit)] {
        let sql = "SELECT * FROM edit WHERE uri = ? AND is_sent = ? ORDER BY id"
        return try Row.fetchAll(self, sql: sql, arguments: [uri, isSent]).map { ($0["id"], try LocalEdit($0)) }
    }

    func setEdit(_ uri: String, _ id: String, _ edit: LocalEdit?, isSent: Bool) throws {
        guard let edit else {
            let sql = "DELETE FROM edit WHERE uri = ? AND is_sent = ? AND id = ?"
            return try execute(sql: sql, arguments: [uri, isSent, id])
        }
        let fields = PropertyList.array(edit.fields.sorted().map { .string($0.text) })
        try execute(
            sql: "INSERT OR REPLACE INTO edit VALUES (?, ?, ?, ?, ?, ?)",
            arguments: [uri, isSent, id, edit.kind.rawValue, edit.entity, try fields.row])
    }
}

extension DeviceRecord {
    fileprivate init(_ row: Row) throws {
        let fields = try (row["fields"] as Data).value.dictionary ?? [:]
        self.init(id: row["id"], entity: row["entity"], fields: fields)
    }
}

extension LocalEdit {
    fileprivate init(_ row: Row) throws {
        let names = try (row["fields"] as Data).value.array?.compactMap(\.string) ?? []
        let fields = Set(names.map { ExactString($0) })
        self.init(kind: Kind(rawValue: row["kind"]) ?? .modify, entity: row["entity"], fields: fields)
    }
}

extension PropertyListLimits {
    /// A record is no longer than a message.
    fileprivate static let stored = PropertyListLimits(bytesMax: 64 << 20, depthMax: 128, valuesMax: 1 << 24)
}

extension PropertyList {
    /// The value as it stands in a row.
    var row: Data {
        get throws { Data(try encoded(as: .binary, limits: .stored)) }
    }
}

extension Data {
    /// The value that stands in a row.
    var value: PropertyList {
        get throws {
            do { return try PropertyList(parsing: self, limits: .stored) } catch {
                throw DeviceError(.storeFailed, "a row of the device's store is damaged: \(error)")
            }
        }
    }
}

extension DeviceOptions {
    fileprivate var row: PropertyList {
        var row: PropertyListDictionary = [
            "form": .string(form.rawValue), "maps": .bool(mapsIDs), "binary": .bool(isBinary),
        ]
        row["items"] = itemsMax.map { .integer(Int64($0)) }
        return .dictionary(row)
    }

    fileprivate init(_ row: PropertyList) {
        self.init()
        form = row["form"]?.string.flatMap(Form.init) ?? form
        mapsIDs = row["maps"]?.bool ?? mapsIDs
        isBinary = row["binary"]?.bool ?? isBinary
        itemsMax = row["items"]?.integer.map { Int($0) }
    }
}

extension DeviceDataclass {
    fileprivate var row: PropertyList {
        func texts(_ texts: [String]) -> PropertyList { .array(texts.map { .string($0) }) }
        let entities = entities.map { entity -> PropertyList in
            [
                "name": .string(entity.name), "fields": texts(entity.fields),
                "relationships": texts(entity.relationships),
            ]
        }
        return ["uri": .string(uri), "entities": .array(entities)]
    }

    fileprivate init?(_ row: PropertyList) {
        guard let uri = row["uri"]?.string, let entities = row["entities"]?.array else { return nil }
        func texts(_ value: PropertyList?) -> [String] { value?.array?.compactMap(\.string) ?? [] }
        self.init(
            uri: uri,
            entities: entities.compactMap { row in
                row["name"]?.string.map { name in
                    Entity(name: name, fields: texts(row["fields"]), relationships: texts(row["relationships"]))
                }
            })
    }
}
