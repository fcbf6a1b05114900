import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList

/// The places of records in a push: entity by entity, targets of relationships first, then by the server's ids.
enum PushPlan {
    static func place(of id: RecordID, _ view: RecordView) -> [UInt8] { place(view.text(of: id) ?? "", of: id.entity) }

    static func place(_ text: String, of entity: Int) -> [UInt8] {
        var key = RowKey()
        key.append(UInt16(clamping: entity))
        return key.bytes + text.utf8
    }

    /// The record at a place.
    static func id(_ place: [UInt8], _ view: RecordView) -> RecordID? {
        guard place.count > 2 else { return nil }
        let entity = Int(place[0]) << 8 | Int(place[1])
        guard view.dataclass.entities.indices.contains(entity) else { return nil }
        return view.candidates(String(decoding: place[2...], as: UTF8.self), of: entity).first
    }
}

extension ClassMingle {
    private struct Told {
        var id: RecordID
        /// The server's id.
        var text: String
        var place: [UInt8]
        var isNew: Bool
        var item: Changes.Item
        /// The fields with links, by the server's ids.
        var links: [(name: String, ids: [String])]
        /// The values that have lost against the device's.
        var conflict: PropertyList?
    }

    /// The items to send to the device: records that it lacks, or has with other values.
    mutating func push(_ data: inout FileData) throws -> Push {
        let view = RecordView(view, data.transaction.state), ids = data.localIDs(dataclass)
        let forcedIDs = Set(forced.compactMap { record(named: $0.text) })
        var conflicts: [RecordID: PropertyList] = [:]
        for (name, fields) in self.conflicts {
            if let id = record(named: name.text) { conflicts[id] = .dictionary(fields) }
        }
        let form = try form(data)
        var told: [Told] = []
        func isSettled(_ id: RecordID) -> Bool {
            settled.contains(id) && !forcedIDs.contains(id) && !filter.isLimiting
        }
        func tell(_ id: RecordID, _ now: RecordFields?) throws {
            if now == nil || !erased.isEmpty, let text = view.text(of: id) {
                let local = try ids.local(text, of: id.entity, data.records)
                // It may have been made again before the device could see that it was gone.
                if now != nil {
                    erased.remove(ExactString(local))
                } else if !local.hasBytes(of: text) {
                    erased.insert(ExactString(local))
                }
            }
            let entity = dataclass.entities[id.entity], known = try known(id, data)
            if waiting.gone.contains(id) { return }
            let record = now.flatMap { filter.shows($0, of: entity) ? waiting.overlaid($0, id) : nil }
            // A device gives no id twice: what a filter has hidden is new to it, by the server's id.
            if record != nil, known == nil, mayHaveHidden, let text = view.text(of: id) {
                try ids.erase(ids.local(text, of: id.entity, data.records), &data.records)
            }
            let difference = difference(
                known, record, id, form, supported[id.entity], forcedIDs.contains(id), conflicts[id])
            if let item = difference { told.append(item) }
        }
        if pull.direction != .toServer {
            var others = forcedIDs.union(knownRecords.keys).union(conflicts.keys)
            if let feed { others.formUnion(feed.ids) }
            if looksAtAll {
                try ids.readAhead(for: .max, &data.records)
                try view.forEach { id, object in
                    others.remove(id)
                    if !isSettled(id) { try tell(id, try view.record(object, of: id.entity)) }
                }
            } else {
                others.formUnion(try relinked(view))
            }
            try ids.readAhead(for: others.count, &data.records)
            for id in others where !isSettled(id) { try tell(id, try view.record(id)) }
        }
        told.sort { $0.place.lexicographicallyPrecedes($1.place) }
        sync["erased"] = erased.isEmpty ? nil : .texts(erased.sorted().map(\.text))
        sync["forced"] = forced.isEmpty ? nil : .texts(forced.sorted().map(\.text))
        let lost = PropertyListDictionary(self.conflicts.map { ($0.text, .dictionary($1)) }) { first, _ in first }
        sync["conflicts"] = lost.isEmpty ? nil : .dictionary(lost)
        (sync["later forced"], sync["later conflicts"]) = (nil, nil)
        try data.setSync(sync, pull.uri)
        return try items(told, form, ids, data)
    }

    /// The record of an entry of `forced` or `conflicts`.
    private func record(named entry: String) -> RecordID? {
        let parts = entry.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let entity = Int(parts[0]), dataclass.entities.indices.contains(entity) else {
            return nil
        }
        return view.candidates(String(parts[1]), of: entity).first
    }

    private func form(_ data: FileData) throws -> Changes.ItemType {
        let stated = try data.info()?["dataclasses"]?[pull.uri]?["item_type"]?.string
        switch sync.text("form") ?? stated {
        case "records"?, "record"?: return .records
        default: return .changes
        }
    }

    /// True if records may have to be sent that have not changed.
    private var looksAtAll: Bool {
        feed == nil || base?["whole"] != nil
            || ["filter", "filter before"].contains { key in
                base?[key]?.dictionary.map { !RecordFilter($0).isSame(as: filter) } ?? false
            }
    }

    /// True if the device may have deleted records because its filter hid them.
    private var mayHaveHidden: Bool {
        guard let base, base["whole"] == nil else { return false }
        return ["filter", "filter before"].contains { key in
            base[key]?.dictionary.map { RecordFilter($0).isLimiting } ?? false
        }
    }

    private func difference(
        _ known: RecordFields?, _ record: RecordFields?, _ id: RecordID, _ form: Changes.ItemType,
        _ supported: Set<ExactString>?, _ isForced: Bool, _ conflict: PropertyList?
    ) -> Told? {
        let entity = dataclass.entities[id.entity]
        guard let text = view.text(of: id) else { return nil }
        let place = PushPlan.place(text, of: id.entity)
        guard let record else {
            guard known != nil || isForced else { return nil }
            let item: Changes.Item =
                form == .records ? .deletedRecord(entity: entity.name) : .delete(entity: entity.name)
            return Told(id: id, text: text, place: place, isNew: false, item: item, links: [])
        }
        func isTold(_ name: String) -> Bool { supported?.contains(ExactString(name)) ?? true }
        var names = record.keys.filter(isTold)
        if let known { names += known.keys.filter { record[$0] == nil && isTold($0) } }
        let changed = isForced || known == nil ? names : names.filter { known?[$0] != record[$0] }
        if known != nil, changed.isEmpty, !isForced, conflict == nil { return nil }
        let sent = known == nil || form == .records ? names : changed
        var links: [(name: String, ids: [String])] = []
        var fields: PropertyListDictionary = [:], cleared: [String] = []
        for name in sent {
            if view.part(name, of: id.entity)?.isField ?? true {
                if let value = record[name] { fields[name] = value } else { cleared.append(name) }
            } else {
                links.append((name, record[name]?.array?.compactMap(\.string) ?? []))
            }
        }
        cleared.sort()
        if isForced, known != nil {
            // The device may have values of fields that are empty here.
            cleared = entity.fields.keys.filter { isTold($0) && record[$0] == nil }.sorted()
            for name in entity.relationships.keys.sorted() where isTold(name) && record[name] == nil {
                if !links.contains(where: { $0.name == name }) { links.append((name, [])) }
            }
        }
        let item: Changes.Item =
            switch (form, known) {
            case (.records, _): .record(entity: entity.name, fields: fields, unchanged: [])
            case (.changes, nil): .add(entity: entity.name, set: fields)
            case (.changes, _?): .modify(entity: entity.name, set: fields, clear: cleared, conflict: nil)
            }
        return Told(
            id: id, text: text, place: place, isNew: known == nil, item: item, links: links, conflict: conflict)
    }

    // MARK: Items

    /// The number of the entity to whose records a relationship leads.
    private func target(of name: String, _ entity: Int) -> Int? {
        if case .relationship(let target, _)? = view.part(name, of: entity)?.kind { target } else { nil }
    }

    private func items(
        _ told: [Told], _ form: Changes.ItemType, _ ids: LocalIDs, _ data: FileData
    ) throws -> Push {
        var items: [Push.Item] = []
        for one in told { items.append(try item(one, one.links, ids, data)) }
        let info = try data.info() ?? [:]
        let bytesMax = Self.bound(info["max_message_bytes"], data.itemBytesMax) { $0 * 3 / 4 - 2_000 }
        let countMax = Self.bound(info["max_items"], data.itemsMax) { $0 }
        let isSplit = items.count > countMax || items.reduce(0) { $0 + $1.byteCount } > bytesMax
        var hasCheckpoints = pull.mode != .slow
        if isSplit {
            // Links to a record that comes later are sent at the end.
            var places: [ExactString: Int] = [:]
            for (index, one) in told.enumerated() where one.isNew {
                places[ExactString("\(one.id.entity) \(one.text)")] = index
            }
            for (index, one) in told.enumerated() {
                let early = one.links.map { name, links in
                    let target = target(of: name, one.id.entity) ?? -1
                    return (name: name, ids: links.filter { places[ExactString("\(target) \($0)")] ?? -1 <= index })
                }
                guard zip(early, one.links).contains(where: { $0.ids != $1.ids }) else { continue }
                hasCheckpoints = false
                items[index] = try item(one, early, ids, data)
                var last = one
                if form == .changes {
                    let entity = dataclass.entities[one.id.entity].name
                    last.item = .modify(entity: entity, set: [:], clear: [], conflict: nil)
                }
                items.append(try item(last, one.links, ids, data))
            }
        }
        var context: PropertyListDictionary = [
            "round": sync["round"] ?? 0, "version": .number(try data.nextPosition()),
            "filter row": .dictionary(filter.row), "time": .number(data.now),
            "fields": .number(try data.fieldsStamp(pull.uri)),
        ]
        if pull.mode == .reset { context["whole"] = true }
        if let base {
            context["whole"] = base["whole"]
            let isCut = base["before"] != nil
            context["before"] = isCut ? base["before"] : base["version"]
            context["filter before"] = isCut ? base["filter before"] : base["filter"]
            context["position"] = base["position"]
            context["time before"] = base["time"]
        }
        // What was covered stays where it was.
        if pull.direction == .toServer { context["base"] = .dictionary(base ?? [:]) }
        context["filter"] = sync["filter anchor"]
        context["reset"] = try data.resetID(pull.uri).map { .string($0) }
        var push = Push(form, items, isSplit: isSplit, hasCheckpoints: hasCheckpoints, context: context)
        (push.itemsMax, push.bytesMax) = (countMax, bytesMax)
        return push
    }

    /// The least of the server's bound and the device's.
    private static func bound(_ value: PropertyList?, _ max: Int, _ usable: (Int) -> Int) -> Int {
        guard let number = value?.integer, number > 0 else { return max }
        return min(max, Swift.max(1, usable(Int(clamping: min(number, 1 << 40)))))
    }

    private func item(
        _ told: Told, _ links: [(name: String, ids: [String])], _ ids: LocalIDs, _ data: FileData
    ) throws -> Push.Item {
        var fields: PropertyListDictionary = [:]
        for (name, targets) in links {
            guard let entity = target(of: name, told.id.entity) else { continue }
            fields[name] = .texts(
                try targets.map { try waiting.ids[ExactString($0)] ?? ids.local($0, of: entity, data.records) })
        }
        var item = told.item
        switch item {
        case .record(let entity, let values, let unchanged):
            item = .record(entity: entity, fields: values.with(fields), unchanged: unchanged)
        case .add(let entity, let values): item = .add(entity: entity, set: values.with(fields))
        case .modify(let entity, let values, let clear, let conflict):
            item = .modify(entity: entity, set: values.with(fields), clear: clear, conflict: conflict)
        case .delete, .deletedRecord: break
        }
        var value = Changes.propertyList(item)
        if let conflict = told.conflict, var members = value.dictionary {
            members["conflict"] = conflict
            value = .dictionary(members)
        }
        let id = try ids.local(told.text, of: told.id.entity, data.records)
        return Push.Item(
            id: id, value: value, byteCount: value.messageByteCount + id.utf8.count + 24, place: told.place)
    }
}

extension PropertyListDictionary {
    fileprivate func with(_ others: PropertyListDictionary) -> PropertyListDictionary {
        var all = self
        for (key, value) in others { all[key] = value }
        return all
    }
}

extension FileData {
    mutating func anchor(of push: Push, after count: Int?, _ uri: String) throws -> String? {
        let context = push.context
        var row: PropertyListDictionary = [
            "round": context["round"] ?? 0, "chunk": .integer(count.map { Int64($0) } ?? .max),
            "version": context["version"] ?? 0, "filter": context["filter row"] ?? [:],
            "time": context["time"] ?? 0, "fields": context["fields"] ?? 0,
        ]
        if let base = context["base"]?.dictionary {
            if base.isEmpty { return nil }
            row = base
        } else if let count {
            guard count > 0, count <= push.items.count else { return nil }
            let place = push.items[count - 1].place
            // An anchor names two versions: not while the push is before the place where the last one was cut off.
            if let position = context["position"]?.data, !position.lexicographicallyPrecedes(place) { return nil }
            row["position"] = .data(place)
            for key in ["before", "filter before", "whole"] { row[key] = context[key] }
            if let time = context["time before"] { row["time"] = time }
        }
        var random = SystemRandomNumberGenerator()
        let token = String(random.next() as UInt64, radix: 36) + "." + String(random.next() as UInt64, radix: 36)
        let expiry = now + limits.changeDays * 86_400
        try records.setRow(row, .anchor, RowKey(device, uri, token), expiresAt: expiry)
        return token
    }
}
