package import AnabranchCore
package import AnabranchHistory
import Foundation
import GRDB

/// The views of a flexible file: what each client sees, and what it was sent and has not confirmed.
extension SQLiteFile {
    /// A store that is only read may have lost its last server before there were views.
    func hasViews() throws -> Bool { try db.tableExists("client_view") }

    func store(_ change: ViewChange, start: Checksum) throws {
        let record = change.record, fields = try ViewFields(record)
        try execute(
            """
            INSERT OR REPLACE INTO client_view (file, ident, query_version, changed, projected, first_number,
            last_number, predicates, role, compensations, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                id.number, stored(record.ident), stored(record.queryVersion), stored(record.changed),
                stored(record.projected), stored(record.firstNumber), stored(record.lastNumber), fields.predicates,
                record.role, fields.compensations, Data(start.covering(record, fields).bytes),
            ])
        try execute(
            "DELETE FROM view_entry WHERE file = ? AND ident = ? AND number < ?",
            [id.number, stored(record.ident), stored(record.firstNumber)])
        for entry in change.entries { try store(entry, of: record.ident, start: start) }
    }

    private func store(_ entry: ViewEntry, of ident: ClientFileID, start: Checksum) throws {
        guard let contents = entry.contents else { throw damaged("entry \(entry.number) of a view") }
        try execute(
            """
            INSERT OR REPLACE INTO view_entry (file, ident, number, version, client_version, timestamp, origin,
            bootstrap, changeset, merged, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                id.number, stored(ident), stored(entry.number), stored(entry.version), stored(entry.clientVersion),
                stored(entry.timestamp), stored(entry.origin), entry.bootstrap.map(stored), Data(contents.changeset),
                contents.merged.map { Data($0) }, Data(start.covering(entry, contents, of: ident).bytes),
            ])
    }

    /// Frees the view of a client file that has expired.
    func dropView(of ident: ClientFileID) throws {
        for table in ["view_entry", "client_view"] {
            try execute("DELETE FROM \(table) WHERE file = ? AND ident = ?", [id.number, stored(ident)])
        }
    }

    /// The views, without the contents of their entries: these are read all the same, since what is damaged beside them
    /// would have a client miss something.
    /// - Throws: `storeDamaged` for the first view that is not what was written.
    func views() throws(HistoryError) -> [StoredView] {
        try translatingErrors {
            guard newPath == nil, try hasViews() else { return [] }
            let start = try record().start
            return try rows("SELECT \(Self.viewColumns) FROM client_view WHERE file = ? ORDER BY ident", [id.number]) {
                try view($0, start: start) { try entries(of: $0, Self.allNumbers, start: start, keepsContents: false) }
            }
        }
    }

    /// A view with the contents of its entries.
    /// - Throws: `storeDamaged` if it is not what was written, or there is none.
    func view(of ident: ClientFileID, start: Checksum) throws -> StoredView {
        let sql = "SELECT \(Self.viewColumns) FROM client_view WHERE file = ? AND ident = ?"
        let views = try rows(sql, [id.number, stored(ident)]) {
            try view($0, start: start) { try entries(of: $0, Self.allNumbers, start: start) }
        }
        guard let view = views.first else { throw HistoryError(.storeDamaged, "there is none") }
        return view
    }

    func viewEntries(
        of ident: ClientFileID, _ numbers: ClosedRange<UInt64>
    ) throws(HistoryError) -> [ViewEntry] {
        try translatingErrors {
            let entries = try entries(of: ident, numbers, start: try record().start)
            guard entries.map(\.number).elementsEqual(numbers) else {
                throw damaged("the view of client file \(ident)")
            }
            return entries
        }
    }

    private static let allNumbers: ClosedRange<UInt64> = 0...UInt64(Int64.max)

    private static let viewColumns = """
        ident, query_version, changed, projected, first_number, last_number, predicates, role, compensations,
        checksum
        """

    private func view(
        _ row: Row, start: Checksum, entries: (ClientFileID) throws -> [ViewEntry]
    ) throws -> StoredView {
        let ident: ClientFileID = try row.number(0)
        let fields = ViewFields(predicates: try row.text(6) ?? "", compensations: try row.text(8) ?? "")
        let record = ViewRecord(
            ident: ident, predicates: try fields.decodedPredicates(), role: try row.text(7) ?? "",
            queryVersion: try row.number(1), changed: try row.number(2), projected: try row.number(3),
            firstNumber: try row.number(4), lastNumber: try row.number(5),
            compensations: try fields.decodedCompensations())
        let log = try entries(ident)
        let isWhole = record.firstNumber &+ UInt64(log.count) == record.lastNumber &+ 1
        guard isWhole, zip(record.firstNumber..., log).allSatisfy({ $0 == $1.number }),
            try Checksum(bytes: row.bytes(9)) == start.covering(record, fields)
        else { throw damaged("the view of client file \(ident)") }
        return StoredView(record: record, log: log)
    }

    private func entries(
        of ident: ClientFileID, _ numbers: ClosedRange<UInt64>, start: Checksum, keepsContents: Bool = true
    ) throws -> [ViewEntry] {
        let sql = """
            SELECT number, version, client_version, timestamp, origin, bootstrap, changeset, merged, checksum
            FROM view_entry WHERE file = ? AND ident = ? AND number BETWEEN ? AND ? ORDER BY number
            """
        let arguments: StatementArguments = [
            id.number, stored(ident), stored(numbers.lowerBound), stored(numbers.upperBound),
        ]
        return try rows(sql, arguments) { row in
            let contents = ViewEntry.Contents(
                changeset: try row.bytes(6), merged: row.hasNull(atIndex: 7) ? nil : try row.bytes(7))
            let entry = ViewEntry(
                number: try row.number(0), version: try row.number(1), clientVersion: try row.number(2),
                timestamp: try row.number(3), origin: try row.number(4), bootstrap: try row.optionalNumber(5),
                contents: contents)
            guard try Checksum(bytes: row.bytes(8)) == start.covering(entry, contents, of: ident) else {
                throw damaged("entry \(entry.number) of the view of client file \(ident)")
            }
            return keepsContents ? entry : entry.withoutContents
        }
    }
}

extension SQLiteStore: ViewStore {
    package func views(of file: SyncedFileID) throws(HistoryError) -> [StoredView] {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in try file.views() }
    }

    package func viewEntries(
        of file: SyncedFileID, _ ident: ClientFileID, _ numbers: ClosedRange<UInt64>
    ) throws(HistoryError) -> [ViewEntry] {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in
            try file.viewEntries(of: ident, numbers)
        }
    }
}

/// The parts of a view that are stored as JSON.
private struct ViewFields {
    var predicates: String
    var compensations: String

    /// `CompensatingWrite` in JSON.
    private struct Compensation: Codable {
        var version: UInt64
        var clientVersion: UInt64
        var objects: [Object]

        struct Object: Codable {
            var className: Data
            var keyType: Int8
            var key: Data
            var reason: String
        }
    }

    init(predicates: String, compensations: String) {
        self.predicates = predicates
        self.compensations = compensations
    }

    init(_ record: ViewRecord) throws {
        predicates = try Self.json(record.predicates)
        compensations = try Self.json(
            record.compensations.map { write in
                Compensation(
                    version: write.version.rawValue, clientVersion: write.clientVersion.rawValue,
                    objects: write.objects.map { object in
                        let key = object.key.stored
                        return Compensation.Object(
                            className: Data(object.className), keyType: key.type.rawValue, key: Data(key.bytes),
                            reason: object.reason)
                    })
            })
    }

    private static func json(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    func decodedPredicates() throws -> [String: String] {
        try decoded([String: String].self, from: predicates)
    }

    func decodedCompensations() throws -> [CompensatingWrite] {
        try decoded([Compensation].self, from: compensations).map { write in
            CompensatingWrite(
                version: ServerVersion(rawValue: write.version),
                clientVersion: ClientVersion(rawValue: write.clientVersion),
                objects: try write.objects.map { object in
                    guard let type = PayloadType(rawValue: object.keyType),
                        let key = PrimaryKey(type, stored: Array(object.key))
                    else { throw HistoryError(.storeDamaged, "a compensating write has no key") }
                    return CompensatingWrite.Object(
                        className: Array(object.className), key: key, reason: object.reason)
                })
        }
    }

    private func decoded<Value: Decodable>(_ type: Value.Type, from text: String) throws -> Value {
        do { return try JSONDecoder().decode(type, from: Data(text.utf8)) } catch {
            throw HistoryError(.storeDamaged, "a view cannot be read")
        }
    }
}

extension Checksum {
    fileprivate func covering(_ record: ViewRecord, _ fields: ViewFields) -> Checksum {
        keyed(
            [
                record.ident.rawValue, record.queryVersion, record.changed.rawValue, record.projected.rawValue,
                record.firstNumber, record.lastNumber, UInt64(fields.predicates.utf8.count),
                UInt64(record.role.utf8.count),
            ], Array(fields.predicates.utf8) + Array(record.role.utf8) + Array(fields.compensations.utf8))
    }

    fileprivate func covering(
        _ entry: ViewEntry, _ contents: ViewEntry.Contents, of ident: ClientFileID
    ) -> Checksum {
        let checksum = keyed(
            [
                ident.rawValue, entry.number, entry.version.rawValue, entry.clientVersion.rawValue,
                entry.timestamp.rawValue, entry.origin.rawValue, entry.bootstrap.map { $0 + 1 } ?? 0,
            ], contents.changeset)
        return contents.merged.map { checksum.keyed([1], $0) } ?? checksum
    }
}

extension PrimaryKey {
    var stored: (type: PayloadType, bytes: [UInt8]) {
        switch self {
        case .null: (.null, [])
        case .int(let value): (.int, Array("\(value)".utf8))
        case .string(let value): (.string, value)
        case .globalKey: (.globalKey, [])
        case .objectID(let value): (.objectID, value.bytes)
        case .uuid(let value): (.uuid, value.bytes)
        }
    }

    init?(_ type: PayloadType, stored bytes: [UInt8]) {
        switch type {
        case .null: self = .null
        case .int:
            guard let value = Int64(String(decoding: bytes, as: UTF8.self)) else { return nil }
            self = .int(value)
        case .string: self = .string(bytes)
        case .objectID:
            guard let value = ObjectID(bytes) else { return nil }
            self = .objectID(value)
        case .uuid:
            guard let value = UUIDBytes(bytes) else { return nil }
            self = .uuid(value)
        default: return nil
        }
    }
}
