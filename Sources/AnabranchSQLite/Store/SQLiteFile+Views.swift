package import AnabranchCore
package import AnabranchHistory
import AnabranchRows
import Foundation
import GRDB

/// The views of a flexible file: the objects that each client sees, and the entries that it was sent and has not
/// confirmed.
extension SQLiteFile {
    func store(_ change: ViewChange, _ contents: inout ViewContents, start: Checksum) throws {
        let record = change.record, predicates = record.predicates.json.encoded
        let before = try contentsOfView(record.ident)
        let (set, role) = (try contents.store(Array(predicates.utf8)), try contents.store(Array(record.role.utf8)))
        try execute(
            """
            INSERT INTO client_view (file, ident, query_version, changed, projected, first_number, last_number,
            predicates, role, checksum, set_content, role_content, logged)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (file, ident) DO UPDATE SET query_version = excluded.query_version,
            changed = excluded.changed, projected = excluded.projected, first_number = excluded.first_number,
            last_number = excluded.last_number, predicates = excluded.predicates, role = excluded.role,
            checksum = excluded.checksum, set_content = excluded.set_content, role_content = excluded.role_content,
            logged = excluded.logged
            """,
            [
                id.number, stored(record.ident), stored(record.queryVersion), stored(record.changed),
                stored(record.projected), stored(record.firstNumber), stored(record.lastNumber),
                set.digest == nil ? predicates : "", role.digest == nil ? record.role : "",
                Data(start.covering(record, predicates).bytes), set.digest, role.digest,
                record.logged.isEmpty ? nil : Data(record.logged.encoded),
            ])
        let freed = try frequentRows(
            """
            DELETE FROM view_entry WHERE file = ? AND ident = ? AND number < ? RETURNING number, content
            """, [id.number, stored(record.ident), stored(record.firstNumber)]
        ) { $0.blob(1).map { Data($0) } }
        for entry in change.entries { try store(entry, of: record.ident, &contents, start: start) }
        try contents.free((before + freed).compactMap { $0 }.filter { $0 != set.digest && $0 != role.digest })
    }

    private func contentsOfView(_ ident: ClientFileID) throws -> [Data?] {
        try frequentRows(
            "SELECT ident, set_content, role_content FROM client_view WHERE file = ? AND ident = ?",
            [id.number, stored(ident)]
        ) { row in [1, 2].map { row.blob($0).map { Data($0) } } }.flatMap { $0 }
    }

    private func store(
        _ entry: ViewEntry, of ident: ClientFileID, _ shared: inout ViewContents, start: Checksum
    ) throws {
        guard let contents = entry.contents else { throw damaged("entry \(entry.number) of a view") }
        let place = try shared.store(entry.isInLog ? [] : contents.changeset, sharedAs: entry.share)
        let fields = try EntryFields(entry, contents, place)
        try execute(
            """
            INSERT OR REPLACE INTO view_entry (file, ident, number, version, client_version, timestamp, origin,
            bootstrap, changeset, merged, in_log, compensation, checksum, content, content_bytes)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                id.number, stored(ident), stored(entry.number), stored(entry.version), stored(entry.clientVersion),
                stored(entry.timestamp), stored(entry.origin), entry.bootstrap.map(stored), Data(fields.changeset),
                try contents.merged.map { try PackedContent.stored($0) }, fields.loggedBytes, fields.compensation,
                Data(start.covering(entry, fields, of: ident).bytes), fields.content, fields.contentBytes,
            ])
    }

    func store(_ field: ViewField) throws {
        try execute(
            """
            INSERT OR REPLACE INTO view_field (file, class, is_class, field, since) VALUES (?, ?, ?, ?, ?)
            """,
            [
                id.number, Data(field.className), field.name == nil, Data(field.name ?? []), field.since.map(stored),
            ])
    }

    /// Frees the view of a client file that has expired.
    func dropView(of ident: ClientFileID) throws {
        var freed = try contentsOfView(ident)
        try execute("DELETE FROM client_view WHERE file = ? AND ident = ?", [id.number, stored(ident)])
        freed += try rows(
            "DELETE FROM view_entry WHERE file = ? AND ident = ? RETURNING content", [id.number, stored(ident)]
        ) { $0[0] as Data? }
        var contents = ViewContents(of: self)
        try contents.free(freed.compactMap { $0 })
    }

    /// The views, without the contents of their entries. The entries are read all the same, since damage to them would
    /// make a client miss something.
    /// - Throws: `storeDamaged` for the first view that is not what was written.
    func views() throws(HistoryError) -> [StoredView] {
        try translatingErrors {
            guard newPath == nil else { return [] }
            let start = try record().start
            return try rows("SELECT \(Self.viewColumns) FROM client_view WHERE file = ? ORDER BY ident", [id.number]) {
                try view($0, start: start) { try entries(of: $0, Self.allNumbers, start: start, keepsContents: false) }
            }
        }
    }

    /// A view.
    /// - Throws: `storeDamaged` if it is not what was written.
    func view(of ident: ClientFileID, start: Checksum, keepsContents: Bool) throws -> StoredView? {
        let sql = "SELECT \(Self.viewColumns) FROM client_view WHERE file = ? AND ident = ?"
        return try rows(sql, [id.number, stored(ident)]) {
            try view($0, start: start) {
                try entries(of: $0, Self.allNumbers, start: start, keepsContents: keepsContents)
            }
        }.first
    }

    func view(of ident: ClientFileID) throws(HistoryError) -> StoredView? {
        try translatingErrors {
            guard newPath == nil else { return nil }
            return try view(of: ident, start: try record().start, keepsContents: false)
        }
    }

    func viewFields() throws(HistoryError) -> [ViewField] {
        try translatingErrors {
            guard newPath == nil else { return [] }
            let sql = "SELECT class, is_class, field, since FROM view_field WHERE file = ?"
            return try rows(sql, [id.number]) { row in
                let isClass: UInt64 = try row.number(1)
                return ViewField(
                    className: try row.bytes(0), name: isClass == 0 ? try row.bytes(2) : nil,
                    since: try row.optionalNumber(3).map(ServerVersion.init(rawValue:)))
            }
        }
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
        ident, query_version, changed, projected, first_number, last_number, predicates, role, checksum, set_content,
        role_content, logged
        """

    private func view(
        _ row: Row, start: Checksum, entries: (ClientFileID) throws -> [ViewEntry]
    ) throws -> StoredView {
        let ident: ClientFileID = try row.number(0)
        func text(_ column: Int, orShared shared: Int) throws -> String {
            try viewContent(row, shared).map { String(decoding: $0, as: UTF8.self) } ?? row.text(column) ?? ""
        }
        let predicates = try text(6, orShared: 9)
        let record = ViewRecord(
            ident: ident, predicates: try Predicates(stored: predicates), role: try text(7, orShared: 10),
            queryVersion: try row.number(1), changed: try row.number(2), projected: try row.number(3),
            firstNumber: try row.number(4), lastNumber: try row.number(5),
            logged: row.hasNull(atIndex: 11) ? [] : try [LoggedEntry](encoded: try row.bytes(11)))
        guard try Checksum(bytes: row.bytes(8)) == start.covering(record, predicates) else {
            throw damaged("the view of client file \(ident)")
        }
        let view = StoredView(record: record, rows: try entries(ident))
        guard view.isWhole else { throw damaged("the view of client file \(ident)") }
        return view
    }

    private func entries(
        of ident: ClientFileID, _ numbers: ClosedRange<UInt64>, start: Checksum, keepsContents: Bool = true
    ) throws -> [ViewEntry] {
        let sql = """
            SELECT number, version, client_version, timestamp, origin, bootstrap, changeset, merged, in_log,
            compensation, checksum, content, content_bytes FROM view_entry
            WHERE file = ? AND ident = ? AND number BETWEEN ? AND ? ORDER BY number
            """
        let arguments: StatementArguments = [
            id.number, stored(ident), stored(numbers.lowerBound), stored(numbers.upperBound),
        ]
        return try rows(sql, arguments) { row in
            let content = keepsContents ? try viewContent(row, 11) : nil
            let fields = EntryFields(
                changeset: try content ?? row.bytes(6), content: row[11],
                contentBytes: try row.optionalNumber(12).map { Int64(clamping: $0) },
                loggedBytes: try row.optionalNumber(8).map { Int64(clamping: $0) }, compensation: try row.text(9))
            let compensation = try fields.decodedCompensation()
            let entry = ViewEntry(
                number: try row.number(0), version: try row.number(1), clientVersion: try row.number(2),
                timestamp: try row.number(3), origin: try row.number(4), bootstrap: try row.optionalNumber(5),
                isInLog: fields.loggedBytes != nil,
                sentBytes: fields.changesetBytes + (compensation?.byteCount ?? 0),
                contents: ViewEntry.Contents(
                    changeset: fields.changeset, merged: row.hasNull(atIndex: 7) ? nil : try row.content(7),
                    compensation: compensation))
            guard try Checksum(bytes: row.bytes(10)) == start.covering(entry, fields, of: ident) else {
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

    package func view(of file: SyncedFileID, _ ident: ClientFileID) throws(HistoryError) -> StoredView? {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in try file.view(of: ident) }
    }

    package func viewFields(of file: SyncedFileID) throws(HistoryError) -> [ViewField] {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in try file.viewFields() }
    }

    package func viewEntries(
        of file: SyncedFileID, _ ident: ClientFileID, _ numbers: ClosedRange<UInt64>
    ) throws(HistoryError) -> [ViewEntry] {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in
            try file.viewEntries(of: ident, numbers)
        }
    }
}

/// The columns of a row for the contents of an entry.
private struct EntryFields {
    /// Empty if the changeset is in the log, or in `ViewContents`, from which it may have been read.
    let changeset: [UInt8]
    /// The digest of the content in `ViewContents`, and its length in bytes; nil if it is not there.
    let content: Data?
    let contentBytes: Int64?
    /// The length in the log, in bytes; nil if it is not there.
    let loggedBytes: Int64?
    /// `CompensatingWrite` in JSON; nil if there is none.
    let compensation: String?

    init(changeset: [UInt8], content: Data?, contentBytes: Int64?, loggedBytes: Int64?, compensation: String?) {
        self.changeset = changeset
        self.content = content
        self.contentBytes = contentBytes
        self.loggedBytes = loggedBytes
        self.compensation = compensation
    }

    init(_ entry: ViewEntry, _ contents: ViewEntry.Contents, _ place: ViewContents.Place) throws {
        changeset = place.inRow
        content = place.digest
        contentBytes = content == nil ? nil : Int64(contents.changeset.count)
        loggedBytes = entry.isInLog ? Int64(entry.changesetBytes) : nil
        compensation = try contents.compensation.map { try String(json: Compensation($0)) }
    }

    /// The length of the changeset in bytes, wherever it is.
    var changesetBytes: Int { (loggedBytes ?? contentBytes).map { Int(clamping: $0) } ?? changeset.count }

    func decodedCompensation() throws -> CompensatingWrite? {
        try compensation.map { try CompensatingWrite($0.decoded(Compensation.self)) }
    }
}

/// `CompensatingWrite` in JSON.
private struct Compensation: Codable {
    struct Object: Codable {
        var className: Data
        var keyType: Int8
        var key: Data
        var reason: String
    }

    var version: UInt64
    var clientVersion: UInt64
    var objects: [Object]

    init(_ write: CompensatingWrite) {
        version = write.version.rawValue
        clientVersion = write.clientVersion.rawValue
        objects = write.objects.map { object in
            let key = object.key.stored
            return Object(
                className: Data(object.className), keyType: key.type.rawValue, key: Data(key.bytes),
                reason: object.reason)
        }
    }
}

extension CompensatingWrite {
    fileprivate init(_ stored: Compensation) throws {
        self.init(
            version: ServerVersion(rawValue: stored.version),
            clientVersion: ClientVersion(rawValue: stored.clientVersion),
            objects: try stored.objects.map { object in
                guard let type = PayloadType(rawValue: object.keyType),
                    let key = PrimaryKey(type, stored: Array(object.key))
                else { throw HistoryError(.storeDamaged, "a compensating write has no key") }
                return Object(className: Array(object.className), key: key, reason: object.reason)
            })
    }
}

extension String {
    fileprivate init(json value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        self.init(decoding: try encoder.encode(value), as: UTF8.self)
    }

    fileprivate func decoded<Value: Decodable>(_ type: Value.Type) throws -> Value {
        do { return try JSONDecoder().decode(type, from: Data(utf8)) } catch {
            throw HistoryError(.storeDamaged, "a view cannot be read")
        }
    }
}

extension Checksum {
    fileprivate func covering(_ entry: ViewEntry, _ fields: EntryFields, of ident: ClientFileID) -> Checksum {
        var checksum = keyed(
            [
                ident.rawValue, entry.number, entry.version.rawValue, entry.clientVersion.rawValue,
                entry.timestamp.rawValue, entry.origin.rawValue, entry.bootstrap.map { $0 + 1 } ?? 0,
                fields.loggedBytes.map { UInt64(clamping: $0) + 1 } ?? 0,
            ], fields.content == nil ? fields.changeset : [])
        // The digest stands for the content itself.
        if let content = fields.content { checksum = checksum.keyed([UInt64(fields.changesetBytes)], Array(content)) }
        if let merged = entry.contents?.merged { checksum = checksum.keyed([1], merged) }
        if let compensation = fields.compensation { checksum = checksum.keyed([2], Array(compensation.utf8)) }
        return checksum
    }
}
