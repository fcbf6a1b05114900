import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList

extension FileData {
    /// The name of the last reset: that of all devices' data, and that of this device's.
    func resetID(_ uri: String) throws -> String? {
        let parts = [try row(.dataclass, RowKey(uri))?.text("reset"), try sync(uri).text("reset")]
            .compactMap(\.self)
        return parts.isEmpty ? nil : parts.joined(separator: "+")
    }

    /// Negotiates (`Spec/OverTheAirServer.md`, section 4).
    mutating func start(_ uri: String, _ anchors: Anchors) throws {
        let dataclass = try dataclass(uri)
        for name in [anchors.nextDeviceAnchor, anchors.lastDeviceAnchor] { try checkName(name) }
        try readAhead()
        try recordDevice()
        try prepareClasses(of: dataclass)
        try forgetOldChanges(uri)
        var row = try sync(uri)
        let classRow = try self.row(.dataclass, RowKey(uri)) ?? [:]
        let mode = anchors.mode ?? .fast, names = try AcceptedNames(row).names, resetID = try resetID(uri)
        func refusal(_ mode: Anchors.Mode, _ reason: String) -> StartRefusal {
            var wanted = Anchors()
            (wanted.mode, wanted.lastDeviceAnchor) = (mode, names.last)
            wanted.resetAnchor = resetID
            return StartRefusal(wanted, reason)
        }
        if mode != .reset, !names.isEmpty, !anchors.resetAnchor.hasBytes(of: resetID) {
            throw refusal(.reset, "the data were reset")
        }
        guard let next = anchors.nextDeviceAnchor, !names.dropLast().contains(where: { $0.hasBytes(of: next) }) else {
            throw refusal(.slow, "next_device_anchor names changes that came long ago")
        }
        let isRepeat = names.last.hasBytes(of: next)
        var base: PropertyListDictionary?
        if let last = anchors.lastServerAnchor, last.utf8.count <= 64 {
            base = try self.row(.anchor, RowKey(device, uri, last))
        }
        if mode == .fast {
            let last = anchors.lastDeviceAnchor, before = isRepeat ? names.dropLast().last : names.last
            guard last.hasBytes(of: names.last) || last.hasBytes(of: before) else {
                throw refusal(.slow, "last_device_anchor is not the name that was accepted last")
            }
            guard let base else { throw refusal(.slow, "last_server_anchor is not known") }
            guard try base["fields"] == nil || base.number("fields") == fieldsStamp(uri) else {
                throw refusal(.slow, "the device knows other fields than at last_server_anchor")
            }
            let oldest = base["before"] == nil ? base.number("version") : base.number("before")
            guard base["whole"] != nil || oldest >= classRow.number("base"),
                base.number("version") >= classRow.number("base"),
                base.number("time") + (limits.changeDays - 1) * 86_400 > now
            else { throw refusal(.slow, "last_server_anchor is too old") }
            guard base.number("time") <= now + 86_400 else {
                throw refusal(.slow, "last_server_anchor is of a time to come")
            }
        }
        try settle(&row, base, isRepeat: isRepeat, dataclass)
        if try row != sync(uri) { try setSync(row, uri) }
    }

    /// Records what has arrived, as the anchor proves.
    private mutating func settle(
        _ row: inout PropertyListDictionary, _ base: PropertyListDictionary?, isRepeat: Bool, _ dataclass: Dataclass
    ) throws {
        let ids = localIDs(dataclass), prefix = RowKey(device, dataclass.uri)
        var proven = prefix
        proven.append(base?.number("round") ?? 0)
        proven.append(base?.number("chunk") ?? 0)
        var unproven: [DoorRecord] = []
        try records.forEachRow(.unproven, prefix.bytes) { unproven.append($0) }
        for record in unproven {
            if proven.bytes.lexicographicallyPrecedes(record.place.key) {
                let locals = try PendingRecords.dictionary(record.value).texts("ids")
                try ids.readAhead(for: locals.count, &records)
                for local in locals { try ids.erase(local, &records) }
            }
            records.set(nil, at: record.place)
        }
        guard let base else { return }
        let isComplete = base["chunk"]?.integer == .max
        if isComplete, base.number("round") >= row.number("round") {
            (row["forced"], row["conflicts"]) = (nil, nil)
            if !isRepeat {
                for local in row.texts("erased") { try ids.erase(local, &records) }
                row["erased"] = nil
            }
        }
        var old: [(RecordPlace, UInt64)] = []
        try records.forEachRow(.anchor, prefix.bytes) { record in
            old.append((record.place, try self.row(record.place)?.number("round") ?? 0))
        }
        // One that was never used is not missed, but the last ones may still be on their way.
        old.sort { $0.1 > $1.1 }
        for (index, (place, round)) in old.enumerated()
        where round < base.number("round") || index >= Self.anchorsMax && round > base.number("round") {
            records.set(nil, at: place)
        }
    }

    /// How many anchors of a device and a dataclass are kept.
    private static let anchorsMax = 64

    // MARK: Classes

    /// Adds the classes and columns of a dataclass that the file lacks.
    private func prepareClasses(of dataclass: Dataclass) throws {
        var view = view(dataclass)
        if dataclass.entities.indices.contains(where: { !isComplete($0, view) }) {
            guard canWrite else { throw Status(.notAllowed, "its classes are not there yet", paramName: "uri") }
            do throws(ApplyError) {
                for entity in dataclass.entities {
                    try transaction.addClass(entity.className, key: entity.key, entity.keyType)
                }
                for entity in dataclass.entities { try addColumns(entity, dataclass) }
            } catch {
                guard error.code != .unavailable else { throw error }
                throw Status(
                    .notSupported, "its classes do not fit those of the file: \(error.reason)", paramName: "uri")
            }
            forgetViews()
            view = self.view(dataclass)
        }
        for (index, entity) in dataclass.entities.enumerated() {
            if let misfit = misfit(entity, index, view) {
                throw Status(
                    .notSupported, "\(entity.className).\(misfit) of the file is of another type", paramName: "uri")
            }
        }
    }

    private func isComplete(_ entity: Int, _ view: RecordView) -> Bool {
        guard let schema = view.schema(of: entity) else { return false }
        let entity = view.dataclass.entities[entity]
        let properties = entity.fields.values.map(\.property) + entity.relationships.values.map(\.property)
        return properties.allSatisfy { schema.property(named: Array($0.utf8)) != nil }
    }

    private func addColumns(_ entity: Dataclass.Entity, _ dataclass: Dataclass) throws(ApplyError) {
        let present = Set(transaction.state.schema(ofClass: Array(entity.className.utf8))?.properties.map(\.name) ?? [])
        for (_, field) in entity.fields.sorted(by: { $0.key < $1.key })
        where !present.contains(Array(field.property.utf8)) {
            try transaction.addColumn(
                field.property, field.type.payloadType, isNullable: field.type.collection == .single,
                collection: field.type.collection, to: entity.className)
        }
        for (_, relationship) in entity.relationships.sorted(by: { $0.key < $1.key })
        where !present.contains(Array(relationship.property.utf8)) {
            guard let target = dataclass.index(ofEntity: relationship.entity) else { continue }
            try transaction.addLink(
                relationship.property, to: dataclass.entities[target].className,
                collection: relationship.isMany ? .list : .single, of: entity.className)
        }
    }

    /// The property of a class that the registration does not fit; nil if all do.
    private func misfit(_ entity: Dataclass.Entity, _ index: Int, _ view: RecordView) -> String? {
        guard let schema = view.schema(of: index), let key = schema.key,
            key.name == Array(entity.key.utf8), key.type == entity.keyType, schema.kind == .topLevel
        else { return entity.key }
        for (_, field) in entity.fields {
            let property = schema.property(named: Array(field.property.utf8))
            guard let property, property.type == field.type.payloadType, !property.isKey,
                property.collection == field.type.collection
            else { return field.property }
        }
        for (_, relationship) in entity.relationships {
            let property = schema.property(named: Array(relationship.property.utf8))
            let target = view.dataclass.index(ofEntity: relationship.entity).flatMap { view.schema(of: $0) }
            guard let property, property.type == .link, !property.isEmbedded, property.target == target?.number,
                property.collection == (relationship.isMany ? .list : .single)
            else { return relationship.property }
        }
        return nil
    }
}
