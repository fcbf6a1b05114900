import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList

/// The merge of all records of a device with those of the server (`Spec/OverTheAirServer.md`, section 5).
extension ClassMingle {
    mutating func mergeRecords(_ items: inout [ReadItem], _ reader: ItemReader, _ data: inout FileData) throws {
        let edits = items.filter { !$0.isNewOrWhole }
        if !edits.isEmpty { items.removeAll { !$0.isNewOrWhole } }
        var pairs: [ExactString: RecordID] = [:], byID: Set<ExactString> = [], gone: [ExactString: RecordID] = [:]
        var byIdentity: Set<ExactString> = []
        let names = try AcceptedNames(sync).names, last = pull.anchors.lastDeviceAnchor
        let isTrusted = last != nil && (last.hasBytes(of: names.last) || isRepeat)
        let edited = Set(edits.filter { !$0.isDeletion }.map { ExactString($0.id) })
        for item in items where item.target != nil && isTrusted {
            // It has been erased elsewhere: the device gets the delete, unless it sends an edit of it afterwards.
            guard let target = item.target, try view.record(target) == nil else { continue }
            guard !edited.contains(ExactString(item.id)) else { continue }
            gone[ExactString(item.id)] = target
            knownRecords[target] = KnownRecord(fields: [:])
            force(target)
        }
        var refused: [ExactString: RecordID] = [:]
        for id in reader.failures.keys {
            let local = try reader.ids.record(id.text, data.records)
            let candidates = local.map { [$0] } ?? view.candidates(id.text)
            refused[id] = try candidates.first { try view.object($0) != nil }
        }
        if !gone.isEmpty { items.removeAll { gone[ExactString($0.id)] != nil } }
        if isRepeat {
            for item in items { if let target = item.target { pairs[ExactString(item.id)] = target } }
        } else if !items.isEmpty {
            // One that the device has deleted, or of which an item is refused, is none of the others that it has.
            let deleted = edits.filter(\.isDeletion).compactMap(\.target)
            var match = try SlowMatch(view, without: Set(deleted).union(refused.values))
            try match.match(items, isTrusted: isTrusted) { try data.supported($0, of: pull.uri) }
            (pairs, byID) = (match.pairs, match.byID)
            byIdentity = match.byIdentity
        }
        var found = pairs, random = SystemRandomNumberGenerator()
        for item in items where found[ExactString(item.id)] == nil && !isRepeat {
            var free = view.candidates(item.id, of: item.entity).first
            if let id = free, try view.object(id) != nil { free = nil }
            found[ExactString(item.id)] =
                free
                ?? RecordID(
                    entity: item.entity, key: view.newKey(of: item.entity, random.next(), random.next()))
        }
        let ids = reader.ids
        try reader.resolve(&items, found, new: Set(found.keys))
        func isAtOnce(_ item: ReadItem) -> Bool { item.links.isEmpty && matches == nil }
        func merge(_ item: ReadItem, _ id: RecordID) throws {
            let local = ExactString(item.id), isNew = pairs[local] == nil
            if matches != nil {
                let way = byID.contains(local) ? "id" : byIdentity.contains(local) ? "identity" : "fields"
                matches?.append(
                    MatchedRecord(id: item.id, record: isNew ? nil : view.text(of: id), way: isNew ? "new" : way))
            }
            do {
                try self.merge(
                    item, id, writes: !isRepeat, isNew: isNew, isWonByServer: !names.isEmpty, byID.contains(local))
            } catch let error as ApplyError where error.code == .objectTooLarge {
                throw ItemTooLarge(uri: pull.uri, id: item.id)
            }
        }
        if !isRepeat {
            try ids.eraseAll(&data.records)
            erased = []
            for (local, id) in gone { _ = try ids.set(local.text, id, &data.records) }
            // The device gets the record of a refused item as it is.
            for local in reader.failures.keys {
                if let id = pairs[local] ?? refused[local] { try give(local.text, to: id, ids, &data) }
            }
            var made: Set<RecordID> = []
            for index in items.indices {
                let item = items[index]
                guard let id = found[ExactString(item.id)] else { continue }
                if pairs[ExactString(item.id)] == nil, made.insert(id).inserted {
                    try create(id, item, ids, &data)
                } else {
                    try give(item.id, to: id, ids, &data)
                }
                // Links need all records.
                if isAtOnce(item) {
                    try merge(item, id)
                    items[index].giveUp()
                }
            }
        }
        for item in items where isRepeat || !isAtOnce(item) {
            if let id = found[ExactString(item.id)] { try merge(item, id) }
        }
        try mergeEdits(edits, found, reader, &data)
    }

    /// The edits that come after all records.
    private mutating func mergeEdits(
        _ edits: [ReadItem], _ found: [ExactString: RecordID], _ reader: ItemReader, _ data: inout FileData
    ) throws {
        var edits = edits
        for index in edits.indices {
            if let id = found[ExactString(edits[index].id)] { edits[index].target = id }
        }
        var there = found
        for item in edits { if let target = item.target { there[ExactString(item.id)] = target } }
        try reader.resolve(&edits, there, new: [])
        for item in edits {
            guard let id = item.target else { continue }
            if isRepeat {
                if item.isDeletion { knownRecords[id] = KnownRecord(fields: nil) }
                for name in item.sent.keys { knownRecords[id]?.fields?[name] = item.told[name] }
                for (name, links) in item.linked {
                    knownRecords[id]?.fields?[name] = links.isEmpty ? nil : .texts(links)
                }
            } else {
                try apply(item, id, &data)
            }
        }
    }

    /// Merges a record of the device with the one that it was found to be.
    private mutating func merge(
        _ item: ReadItem, _ id: RecordID, writes: Bool, isNew: Bool, isWonByServer: Bool, _ isByID: Bool
    ) throws {
        settled.remove(id)
        if writes, isNew, item.links.isEmpty, try writer.record(id)?.isEmpty ?? true { return try settle(id, item) }
        var sent = item.told
        for (name, links) in item.linked where !links.isEmpty { sent[name] = .texts(links) }
        knownRecords[id] = KnownRecord(fields: sent)
        guard writes else { return }
        let now = try writer.record(id) ?? [:]
        func isWritten(_ name: String) -> Bool {
            guard sent[name] != nil, sent[name] != now[name] else { return false }
            if isNew || !isWonByServer { return true }
            return now[name] == nil && !isByID
        }
        if !isNew, let last = matches?.indices.last {
            let names = Set(sent.keys.map { ExactString($0) }).union(now.keys.map { ExactString($0) })
            for name in names.map(\.text) where sent[name] != now[name] {
                if isWritten(name) {
                    matches?[last].fromDevice.append(name)
                } else {
                    matches?[last].fromServer.append(name)
                }
            }
        }
        for (name, value) in item.sent where isWritten(name) {
            try writer.set(name, to: value, told: item.told[name], of: id)
        }
        for (name, links) in item.linked where isWritten(name) { try writer.set(name, toLinks: links, of: id) }
        if isNew, try writer.has(sent, as: id) { settled.insert(id) }
    }
}

/// A record of a device in a slow sync, and the server's record that it was found to be.
struct MatchedRecord {
    var id: String
    /// The server's id; nil of a new one.
    var record: String?
    /// `id`, `identity`, `fields`, or `new`.
    var way: String
    /// The fields in which they differ and the device's value counts, and those in which the server's does.
    var fromDevice: [String] = []
    var fromServer: [String] = []
}

extension ReadItem {
    /// True for items that create a missing record.
    var isNewOrWhole: Bool {
        switch kind {
        case .record, .add: true
        case .modify, .delete: false
        }
    }

    var isDeletion: Bool { if case .delete = kind { true } else { false } }
}
