import AnabranchCore
import AnabranchOverTheAir
import AnabranchPropertyList
import Foundation
import GRDB

/// The store during a session (`Spec/OverTheAirDevice.md`, section 2).
struct SessionStore: DeviceData {
    let store: DeviceStore
    /// The number of the session: a later one takes its place.
    let session: Int64

    init(_ store: DeviceStore) throws {
        self.store = store
        session = try store.queue.write { rows in
            let number = (try rows.value("session")?.integer ?? 0) + 1
            try rows.set("session", .integer(number))
            return number
        }
    }

    private func write<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try store.queue.write { rows in
            try check(rows)
            return try body(rows)
        }
    }

    private func check(_ rows: Database) throws {
        guard try rows.value("session")?.integer == session else {
            throw DeviceError(.superseded, "another session of this store has begun")
        }
    }

    // MARK: What the device is

    func information() throws -> (value: PropertyList, isTold: Bool) {
        (described, try store.queue.read { try $0.value("told") == described })
    }

    private var described: PropertyList {
        var dataclasses: PropertyListDictionary = [:]
        for dataclass in store.dataclasses {
            var entities: PropertyListDictionary = [:]
            for entity in dataclass.entities {
                let names = (entity.fields + entity.relationships).sorted()
                entities[entity.name] = .array(names.map { .string($0) })
            }
            dataclasses[dataclass.uri] = [
                "item_type": .string(store.options.form.rawValue), "idmap": .bool(store.options.mapsIDs),
                "entities": .dictionary(entities),
            ]
        }
        var information: PropertyListDictionary = ["model": "anabranch", "dataclasses": .dictionary(dataclasses)]
        information["max_items"] = store.options.itemsMax.map { .integer(Int64($0)) }
        return .dictionary(information)
    }

    func markInformationTold() throws { try write { try $0.set("told", described) } }

    // MARK: What is sent

    func named(_ uri: String) throws -> NamedChanges {
        try write { rows in
            var state = try rows.state(uri)
            if state["name"] == nil {
                try name(uri, state["anchor"] == nil ? .slow : .fast, &state, rows)
                try rows.setState(uri, state)
            }
            var anchors = Anchors()
            anchors.mode = state["mode"]?.string.flatMap(Anchors.Mode.init)
            anchors.nextDeviceAnchor = state["name"]?.string
            anchors.lastDeviceAnchor = state["last"]?.string
            anchors.lastServerAnchor = state["anchor"]?.string
            anchors.resetAnchor = state["reset"]?.string
            let count = try Int.fetchOne(rows, sql: "SELECT count(*) FROM sent WHERE uri = ?", arguments: [uri]) ?? 0
            let sql = "SELECT server, local FROM server_id WHERE uri = ? AND is_known = 0"
            let ids = try Row.fetchAll(rows, sql: sql, arguments: [uri]).map { row in
                (row["server"] as String, PropertyList.string(row["local"]))
            }
            return NamedChanges(anchors: anchors, count: count, idMap: PropertyListDictionary(ids) { $1 })
        }
    }

    /// Gives the edits a name, together with those that were sent without success under the previous one.
    private func name(
        _ uri: String, _ mode: Anchors.Mode, _ state: inout PropertyListDictionary, _ rows: Database
    ) throws {
        var edits: [ExactString: LocalEdit] = [:]
        // Before a reset, nothing is sent; what was edited goes with the first checkpoint.
        if mode != .reset {
            for (id, edit) in try rows.edits(uri, isSent: true) { edits[ExactString(id)] = edit }
            for (id, edit) in try rows.edits(uri, isSent: false) {
                let before = edits[ExactString(id)]
                edits[ExactString(id)] = before.map { $0.followed(by: edit) } ?? edit
            }
            try rows.execute(sql: "DELETE FROM edit WHERE uri = ? AND is_sent = 0", arguments: [uri])
        }
        try rows.execute(sql: "DELETE FROM edit WHERE uri = ? AND is_sent = 1", arguments: [uri])
        try rows.execute(sql: "DELETE FROM sent WHERE uri = ?", arguments: [uri])
        var ordinal = 0
        func send(_ form: Changes.ItemType, _ id: String, _ item: Changes.Item) throws {
            try rows.execute(
                sql: "INSERT INTO sent VALUES (?, ?, ?, ?, ?)",
                arguments: [uri, ordinal, form.rawValue, id, try Changes.propertyList(item).row])
            ordinal += 1
        }
        if mode == .slow {
            try rows.forEachRecord(uri) { record in
                try send(.records, record.id, .record(entity: record.entity, fields: record.fields, unchanged: []))
            }
        }
        let form: Changes.ItemType = mode == .slow || store.options.form == .changes ? .changes : .records
        for (id, edit) in edits.sorted(by: { $0.key < $1.key }).map({ ($0.text, $1) }) {
            try rows.setEdit(uri, id, edit, isSent: true)
            if mode == .slow, edit.kind == .add { continue }
            if let item = try item(id, edit, form, uri, rows) { try send(form, id, item) }
        }
        let number = (state["count"]?.integer ?? 0) + 1
        state["count"] = .integer(number)
        state["name"] = .string("\(number).\(DeviceStore.randomText())")
        state["last"] = state["accepted"]
        state["mode"] = .string(mode.rawValue)
    }

    private func item(
        _ id: String, _ edit: LocalEdit, _ form: Changes.ItemType, _ uri: String, _ rows: Database
    ) throws -> Changes.Item? {
        if edit.kind == .delete {
            return form == .changes ? .delete(entity: edit.entity) : .deletedRecord(entity: edit.entity)
        }
        guard let record = try rows.record(uri, id)?.record else { return nil }
        if form == .records { return .record(entity: record.entity, fields: record.fields, unchanged: []) }
        if edit.kind == .add { return .add(entity: record.entity, set: record.fields) }
        var set: PropertyListDictionary = [:], clear: [String] = []
        for name in edit.fields.sorted().map(\.text) {
            if let value = record.fields[name] { set[name] = value } else { clear.append(name) }
        }
        return .modify(entity: record.entity, set: set, clear: clear, conflict: nil)
    }

    func slice(
        of uri: String, from ordinal: Int, itemsMax: Int, bytesMax: Int
    ) throws -> (items: Changes, next: Int) {
        try store.queue.read { rows in
            // Another session may have left nothing under the name.
            try check(rows)
            let cursor = try Row.fetchCursor(
                rows, sql: "SELECT * FROM sent WHERE uri = ? AND ordinal >= ? ORDER BY ordinal LIMIT ?",
                arguments: [uri, ordinal, itemsMax])
            var type: Changes.ItemType?, items: [(String, PropertyList)] = [], next = ordinal, bytes = 0
            while let row = try cursor.next(), bytes < bytesMax {
                let form = Changes.ItemType(rawValue: row["form"])
                guard type == nil || type == form else { break }
                let item = try (row["item"] as Data).value, id: String = row["id"]
                (type, next) = (form, row["ordinal"] + 1)
                bytes += item.messageByteCount + id.utf8.count + 24
                items.append((id, item))
            }
            return (Changes(type, PropertyListDictionary(items) { $1 }), next)
        }
    }

    // MARK: What comes

    func renegotiate(_ uri: String, _ wanted: Anchors) throws {
        try write { rows in
            var state = try rows.state(uri)
            if let last = wanted.lastDeviceAnchor {
                if state["name"]?.string == last {
                    // The changes are in; what became of each is not known.
                    var received = Received(name: last)
                    received.isAnswered = true
                    try accept(received, uri, &state, rows)
                }
                state["accepted"] = .string(last)
            }
            if wanted.mode == .reset { state["reset"] = wanted.resetAnchor.map { .string($0) } }
            try name(uri, wanted.mode ?? .slow, &state, rows)
            try rows.setState(uri, state)
        }
    }

    func newIDs(for items: Changes, of uri: String, _ received: Received) throws -> PropertyListDictionary {
        guard store.options.mapsIDs else { return [:] }
        let dataclass = try store.dataclass(uri)
        return try store.queue.read { rows in
            // Once a slow or a reset sync is answered, the ids of before lead nowhere.
            let state = try rows.state(uri)
            let isFresh =
                state["name"]?.string == received.name && state["mode"]?.string != Anchors.Mode.fast.rawValue
            var ids: PropertyListDictionary = [:]
            for id in items.items.keys where DeviceStore.isKey(id, dataclass) && received.idMap[id] == nil {
                switch try items.item(id) {
                case .delete, .deletedRecord, .modify(nil, _, _, _): continue
                default: break
                }
                let local = try isFresh ? id : rows.local(uri, id) ?? id
                // An id goes with its record: one that comes again gets another, unless it was deleted here since.
                let isDeleted = try rows.edit(uri, local, isSent: false)?.kind == .delete
                if try !isDeleted && rows.record(uri, local) == nil { ids[id] = .string(DeviceStore.newID()) }
            }
            return ids
        }
    }

    func take(_ received: Received, _ anchors: Anchors, of uri: String) throws {
        let dataclass = try store.dataclass(uri)
        try write { rows in
            var state = try rows.state(uri)
            if state["name"]?.string == received.name { try accept(received, uri, &state, rows) }
            for (server, local) in received.idMap {
                try rows.execute(
                    sql: "INSERT OR REPLACE INTO server_id VALUES (?, ?, ?, 0)",
                    arguments: [uri, server, local.string])
            }
            for changes in received.chunks { try apply(changes, dataclass, rows) }
            if let anchor = anchors.nextServerAnchor { state["anchor"] = .string(anchor) }
            if let reset = anchors.resetAnchor { state["reset"] = .string(reset) }
            try rows.setState(uri, state)
        }
    }

    /// Takes in that the server has the changes under the name.
    private func accept(
        _ received: Received, _ uri: String, _ state: inout PropertyListDictionary, _ rows: Database
    ) throws {
        let mode = state["mode"]?.string.flatMap(Anchors.Mode.init)
        if mode == .reset {
            for table in ["record", "link", "edit"] {
                try rows.execute(sql: "DELETE FROM \(table) WHERE uri = ?", arguments: [uri])
            }
        }
        // After a slow or a reset sync, the ids of before lead nowhere.
        if mode != .fast { try rows.execute(sql: "DELETE FROM server_id WHERE uri = ?", arguments: [uri]) }
        let new = try String.fetchAll(
            rows,
            sql: """
                SELECT id FROM record WHERE uri = ?1 AND is_new
                    AND id IN (SELECT id FROM sent WHERE uri = ?1)
                """, arguments: [uri])
        for id in new {
            guard received.failures[ExactString(id)] != nil else {
                try rows.execute(sql: "UPDATE record SET is_new = 0 WHERE uri = ? AND id = ?", arguments: [uri, id])
                continue
            }
            // What has been edited since it was refused is sent as a whole.
            if var edit = try rows.edit(uri, id, isSent: false), edit.kind == .modify {
                edit.kind = .add
                try rows.setEdit(uri, id, edit, isSent: false)
            }
        }
        try rows.execute(sql: "DELETE FROM edit WHERE uri = ? AND is_sent = 1", arguments: [uri])
        try rows.execute(sql: "DELETE FROM sent WHERE uri = ?", arguments: [uri])
        state["accepted"] = state["name"]
        for key in ["name", "last", "mode"] { state[key] = nil }
    }

    func markIDsKnown(_ uri: String) throws {
        try write { try $0.execute(sql: "UPDATE server_id SET is_known = 1 WHERE uri = ?", arguments: [uri]) }
    }

    /// Applies the server's changes of a message. All records exist before links are read.
    private func apply(_ changes: Changes, _ dataclass: DeviceDataclass, _ rows: Database) throws {
        let uri = dataclass.uri
        var locals: [ExactString: String] = [:], gone: [String] = []
        for id in changes.items.keys {
            let local = try rows.local(uri, id) ?? id
            locals[ExactString(id)] = local
            var name: String?
            switch try changes.item(id) {
            case .record(let entity, _, _), .add(let entity, _): name = entity
            case .modify(let entity, _, _, _): name = entity
            case .delete, .deletedRecord:
                gone.append(local)
                continue
            }
            // What has been deleted here since stays deleted.
            guard let name, try rows.record(uri, local) == nil,
                try rows.edit(uri, local, isSent: false)?.kind != .delete,
                let entity = dataclass.entities.first(where: { $0.name.hasBytes(of: name) })
            else { continue }
            let record = DeviceRecord(id: local, entity: name, fields: [:])
            try rows.setRecord(uri, record, isNew: false, entity)
        }
        try rows.eraseRecords(gone, of: dataclass)
        for id in gone { try rows.setEdit(uri, id, nil, isSent: false) }
        for id in changes.items.keys {
            guard let local = locals[ExactString(id)] else { continue }
            switch try changes.item(id) {
            case .delete, .deletedRecord: break
            case .record(_, let fields, let unchanged):
                try set(fields, unchanged: unchanged, clear: nil, of: local, dataclass, rows)
            case .add(_, let fields): try set(fields, clear: [], of: local, dataclass, rows)
            case .modify(_, let fields, let clear, _): try set(fields, clear: clear, of: local, dataclass, rows)
            }
        }
    }

    /// - Parameter clear: nil if all fields go that are not set.
    private func set(
        _ values: PropertyListDictionary, unchanged: [String] = [], clear: [String]?, of id: String,
        _ dataclass: DeviceDataclass, _ rows: Database
    ) throws {
        let uri = dataclass.uri
        guard let (record, isNew) = try rows.record(uri, id),
            let entity = dataclass.entities.first(where: { $0.name.hasBytes(of: record.entity) })
        else { return }
        let edit = try rows.edit(uri, id, isSent: false)
        func isKept(_ name: String) -> Bool {
            edit.map { $0.kind == .add ? record.fields[name] != nil : $0.fields.contains(ExactString(name)) } ?? false
        }
        var fields = record.fields
        for (name, value) in values where !isKept(name) {
            guard entity.relationships.contains(where: { $0.hasBytes(of: name) }), let links = value.array else {
                fields[name] = value == [] || value == [:] ? nil : value
                continue
            }
            var told: [PropertyList] = []
            for link in links.compactMap(\.string) {
                let local = try rows.local(uri, link) ?? link
                if try rows.record(uri, local) != nil { told.append(.string(local)) }
            }
            fields[name] = told.isEmpty ? nil : .array(told)
        }
        let gone = clear ?? record.fields.keys.filter { values[$0] == nil && !unchanged.contains($0) }
        for name in gone where !isKept(name) { fields[name] = nil }
        try rows.setRecord(uri, DeviceRecord(id: id, entity: record.entity, fields: fields), isNew: isNew, entity)
    }
}

extension Database {
    /// The device's id of a record that the server has added; nil if the device has given none.
    fileprivate func local(_ uri: String, _ server: String) throws -> String? {
        let sql = "SELECT local FROM server_id WHERE uri = ? AND server = ?"
        return try String.fetchOne(self, sql: sql, arguments: [uri, server])
    }
}
