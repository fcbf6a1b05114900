import AnabranchCore
import AnabranchOverTheAir
public import AnabranchPropertyList
import GRDB

/// A device that syncs property lists over the air, with its records in a SQLite file
/// (`Spec/OverTheAirDevice.md`).
///
/// Records are read and edited with and without a server. What is edited waits in the file until a session brings it to
/// the server; what a session has brought is in the file as a whole, checkpoint by checkpoint, and if a session is cut
/// off or the process is killed, the next one goes on from the last one. Several processes may have one file open; of
/// two sessions the later one goes on.
public struct PropertyListDevice: Sendable {
    private let store: DeviceStore
    /// The bounds of its sessions.
    var limits = DeviceLimits()

    /// Opens the store of a device; a new one, if there is no file.
    /// - Parameters:
    ///   - path: the path of the file.
    ///   - dataclasses: the dataclasses to sync; nil for those of the last opening.
    ///   - options: the options of the device; nil for those of the last opening.
    public init(
        store path: String, dataclasses: [DeviceDataclass]? = nil, options: DeviceOptions? = nil
    ) throws(DeviceError) {
        store = try Self.mapped { try DeviceStore(path: path, dataclasses: dataclasses, options: options) }
    }

    /// The dataclasses of the store.
    public var dataclasses: [DeviceDataclass] { store.dataclasses }

    /// The habits of the device.
    public var options: DeviceOptions { store.options }

    /// The id by which the server knows the device.
    public var id: String {
        get throws(DeviceError) { try Self.mapped { try store.queue.read { try $0.value("device")?.string ?? "" } } }
    }

    private static func mapped<Result>(_ body: () throws -> Result) throws(DeviceError) -> Result {
        do { return try body() } catch let error as DeviceError {
            throw error
        } catch let error as PropertyListError {
            throw DeviceError(.badChange, "\(error)")
        } catch {
            throw DeviceError(.storeFailed, "the store of the device: \(error)")
        }
    }

    // MARK: Records

    /// The records of a dataclass, in the order of their ids.
    public func records(of uri: String) throws(DeviceError) -> [DeviceRecord] {
        try Self.mapped {
            _ = try store.dataclass(uri)
            return try store.queue.read { rows in
                var records: [DeviceRecord] = []
                try rows.forEachRecord(uri) { records.append($0) }
                return records
            }
        }
    }

    /// The number of records of a dataclass that wait for the server, deleted ones among them.
    public func pendingCount(of uri: String) throws(DeviceError) -> Int {
        try Self.mapped {
            try store.queue.read { rows in
                let sql = "SELECT count(DISTINCT id) FROM edit WHERE uri = ?"
                return try Int.fetchOne(rows, sql: sql, arguments: [uri]) ?? 0
            }
        }
    }

    /// A change of records.
    public enum Edit: Sendable {
        /// A new record; with a nil id the device makes one. An id of your own must never be used again, and must not
        /// look like a UUID, an ObjectId or `entity/key`, unless it is meant as the key of the server's object.
        case add(id: String?, entity: String, fields: PropertyListDictionary)
        /// Fields of a record get other values, and others none. Relationships are arrays of ids.
        case modify(id: String, set: PropertyListDictionary, clear: [String])
        /// A record goes, and the links to it.
        case delete(id: String)
    }

    /// Edits records of a dataclass: all of them or, if one is wrong, none.
    /// - Returns: the ids of the records.
    @discardableResult
    public func edit(_ edits: [Edit], of uri: String) throws(DeviceError) -> [String] {
        try Self.mapped {
            let dataclass = try store.dataclass(uri)
            return try store.queue.write { rows in try edits.map { try edit($0, dataclass, rows) } }
        }
    }

    /// Edits records as the items of a message do (`Spec/OverTheAir.md`, section 4: `changes`): dictionaries with `op`,
    /// `entity`, `set` and `clear`, by ids. To add a record that is there is to change it.
    public func edit(items: PropertyListDictionary, of uri: String) throws(DeviceError) {
        let changes = Changes(.changes, items)
        let known = Set(try records(of: uri).map { ExactString($0.id) })
        var edits: [Edit] = []
        for id in items.keys {
            do throws(Status) {
                switch try changes.item(id) {
                case .add(_, let set) where known.contains(ExactString(id)):
                    edits.append(.modify(id: id, set: set, clear: []))
                case .add(let entity, let set): edits.append(.add(id: id, entity: entity, fields: set))
                case .modify(_, let set, let clear, _): edits.append(.modify(id: id, set: set, clear: clear))
                case .delete: edits.append(.delete(id: id))
                case .record, .deletedRecord: break
                }
            } catch {
                throw DeviceError(.badChange, "\(uri): \(id): \(error.description ?? "no change")")
            }
        }
        try edit(edits, of: uri)
    }

    private func edit(_ edit: Edit, _ dataclass: DeviceDataclass, _ rows: Database) throws -> String {
        let uri = dataclass.uri
        switch edit {
        case .add(let id, let name, let fields):
            let id = id ?? DeviceStore.newID(), entity = try store.entity(name, dataclass)
            guard !id.isEmpty, try rows.record(uri, id) == nil else {
                throw DeviceError(.badChange, "\(uri): there is a record \(id) already")
            }
            try check(fields, [], entity, id)
            let told = fields.filter { $0.value != [] && $0.value != [:] }.map { ($0.key, $0.value) }
            let record = DeviceRecord(id: id, entity: entity.name, fields: PropertyListDictionary(told) { $1 })
            try rows.setRecord(uri, record, isNew: true, entity)
            try rows.setEdit(uri, id, LocalEdit(kind: .add, entity: entity.name), isSent: false)
            return id
        case .modify(let id, let values, let clear):
            guard let (record, isNew) = try rows.record(uri, id) else { throw missing(id, uri) }
            let entity = try store.entity(record.entity, dataclass)
            try check(values, clear, entity, id)
            var fields = record.fields
            for (name, value) in values { fields[name] = value == [] || value == [:] ? nil : value }
            for name in clear { fields[name] = nil }
            let changed = DeviceRecord(id: id, entity: entity.name, fields: fields)
            try rows.setRecord(uri, changed, isNew: isNew, entity)
            var next = LocalEdit(kind: .modify, entity: entity.name)
            next.fields = Set((Array(values.keys) + clear).map { ExactString($0) })
            if isNew, try !isSent(id, uri, rows) { next = LocalEdit(kind: .add, entity: entity.name) }
            let before = try rows.edit(uri, id, isSent: false)
            try rows.setEdit(uri, id, before.map { $0.followed(by: next) } ?? next, isSent: false)
            return id
        case .delete(let id):
            guard let (record, isNew) = try rows.record(uri, id) else { throw missing(id, uri) }
            try rows.eraseRecords([id], of: dataclass)
            // A record that was never sent need not be deleted on the server.
            let isUnknown = try isNew && !isSent(id, uri, rows)
            let next = LocalEdit(kind: .delete, entity: record.entity)
            try rows.setEdit(uri, id, isUnknown ? nil : next, isSent: false)
            return id
        }
    }

    /// True if a record is among what waits for an answer.
    private func isSent(_ id: String, _ uri: String, _ rows: Database) throws -> Bool {
        let sql = "SELECT 1 FROM sent WHERE uri = ? AND id = ?"
        return try Int.fetchOne(rows, sql: sql, arguments: [uri, id]) != nil
    }

    private func missing(_ id: String, _ uri: String) -> DeviceError {
        DeviceError(.badChange, "\(uri): there is no record \(id)")
    }

    private func check(
        _ values: PropertyListDictionary, _ clear: [String], _ entity: DeviceDataclass.Entity, _ id: String
    ) throws {
        if !options.isBinary { _ = try PropertyList.dictionary(values).encoded(as: .xml) }
        for name in Array(values.keys) + clear {
            let isLink = entity.relationships.contains { $0.hasBytes(of: name) }
            guard isLink || entity.fields.contains(where: { $0.hasBytes(of: name) }) else {
                let known = (entity.fields + entity.relationships).sorted().joined(separator: ", ")
                throw DeviceError(.badChange, "\(id): \(entity.name) has no field \(name); known: \(known)")
            }
            guard isLink, let value = values[name] else { continue }
            guard let links = value.array, links.allSatisfy({ $0.string != nil }) else {
                throw DeviceError(.badChange, "\(id): \(name) is not an array of ids")
            }
        }
    }

    // MARK: Sync

    /// Syncs with a server: sends the edits, and takes in those of others. Edits made during the call wait for the next
    /// one.
    /// - Parameters:
    ///   - uris: the dataclasses; nil for all.
    ///   - progress: called after each message with the numbers of messages, and of received items.
    /// - Throws: the reason why the session has ended early. Checkpointed items stay; the next session continues from
    ///   there.
    public func sync(
        _ uris: [String]? = nil, with service: PropertyListService,
        progress: (@Sendable (_ messages: Int, _ items: Int) -> Void)? = nil
    ) async throws(DeviceError) -> DeviceReport {
        do {
            return try await exchange(uris ?? store.dataclasses.map(\.uri), service, progress)
        } catch let error as DeviceExchange.EndedError {
            let name = StatusCode(rawValue: error.status.code)?.name ?? "\(error.status.code)"
            throw DeviceError(.refused, "the server has ended the session: \(error.status.text(name))")
        } catch let error as MessageError {
            throw DeviceError(.refused, "the answer of the server is no message: \(error.place) \(error.reason)")
        } catch let error as CancellationError {
            throw DeviceError(.offline, "cancelled: \(error)")
        } catch {
            try Self.mapped { throw error }
            throw DeviceError(.storeFailed, "\(error)")
        }
    }

    private func exchange(
        _ uris: [String], _ service: PropertyListService, _ progress: (@Sendable (Int, Int) -> Void)?
    ) async throws -> DeviceReport {
        for uri in uris { _ = try store.dataclass(uri) }
        var data: any DeviceData = try SessionStore(store)
        var session = DeviceExchange(
            deviceID: try id, service: "sync", userID: service.userID, uris: uris, limits: limits)
        var cookie: String?, messages = 0
        while let message = try session.message(&data) {
            let bytes = try message.encoded(as: options.isBinary ? .binary : .xml)
            let answer = try await service.answer(to: bytes, isBinary: options.isBinary, cookie: &cookie)
            messages += 1
            try session.take(try Message(parsing: answer, limits: .answers), &data)
            progress?(messages, session.outcomes.reduce(0) { $0 + $1.outcome.received })
        }
        let outcomes = session.outcomes.map { uri, outcome in
            var refused: [String: String] = [:]
            for (id, status) in outcome.failures { refused[id.text] = status.text }
            return DeviceReport.Outcome(
                uri: uri, mode: outcome.mode.rawValue, sent: outcome.sent, received: outcome.received,
                refused: refused, conflicts: outcome.conflicts, failure: outcome.failure?.text,
                renegotiation: outcome.refusals.first)
        }
        return DeviceReport(outcomes: outcomes, messages: messages)
    }
}

extension Status {
    /// The name and the description.
    fileprivate var text: String { text(StatusCode(rawValue: code)?.name ?? "\(code)") }

    fileprivate func text(_ name: String) -> String { description.map { "\(name): \($0)" } ?? name }
}
