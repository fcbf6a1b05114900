package import AnabranchPropertyList

/// The parameters of `sync-changes` (`Spec/OverTheAir.md`, section 4).
package struct Changes: Equatable, Sendable {
    /// The form of all items of a command.
    package enum ItemType: String, Sendable {
        /// Whole records.
        case records
        /// Changed fields.
        case changes
    }

    /// An item that was understood.
    package enum Item: Equatable, Sendable {
        /// A record as a whole; `unchanged` are fields that are what they were, and too large to be said again.
        case record(entity: String, fields: PropertyListDictionary, unchanged: [String])
        /// A record that is no more, of those that come as a whole.
        case deletedRecord(entity: String)
        /// A new record.
        case add(entity: String, set: PropertyListDictionary)
        /// Fields that have changed, and fields that have none any more. `conflict` has the values that lost.
        case modify(entity: String?, set: PropertyListDictionary, clear: [String], conflict: PropertyListDictionary?)
        /// A record that is no more.
        case delete(entity: String?)
    }

    /// Nil if there are no items.
    package var itemType: ItemType?
    /// The items by their ids, as they came.
    package var items: PropertyListDictionary
    /// The device's ids, which are texts, by those of the server.
    package var idMap: PropertyListDictionary
    /// A checkpoint.
    package var anchors: Anchors?

    package init(
        _ itemType: ItemType? = nil, _ items: PropertyListDictionary = [:], idMap: PropertyListDictionary = [:],
        anchors: Anchors? = nil
    ) {
        (self.itemType, self.items, self.idMap, self.anchors) = (itemType, items, idMap, anchors)
    }

    /// - Throws: the status for the response.
    package init(_ params: PropertyListDictionary) throws(Status) {
        switch params["items"] {
        case .dictionary(let items)?: self.items = items
        case .array(let items)? where items.isEmpty: self.items = [:]
        case nil: throw Status(.missingParam, paramName: "items")
        default: throw Status(.paramError, "neither a dictionary nor an empty array", paramName: "items")
        }
        itemType = try Self.itemType(params["item_type"])
        guard itemType != nil || items.isEmpty else { throw Status(.missingParam, paramName: "item_type") }
        idMap = try Self.idMap(params["idmap"])
        if let value = params["anchors"] { anchors = try Anchors(value) }
    }

    private static func itemType(_ value: PropertyList?) throws(Status) -> ItemType? {
        switch value {
        case nil: return nil
        case .string("records")?, .string("record")?: return .records
        case .string("changes")?, .string("change")?: return .changes
        default: throw Status(.paramError, "neither records nor changes", paramName: "item_type")
        }
    }

    /// Reads the map of ids that a command or a response has.
    package static func idMap(_ value: PropertyList?) throws(Status) -> PropertyListDictionary {
        guard let value else { return [:] }
        guard let entries = value.dictionary else { throw Status(.paramError, "no dictionary", paramName: "idmap") }
        for (key, value) in entries where value.string?.isEmpty ?? true {
            throw Status(.paramError, "no text", paramName: "idmap", paramKey: key)
        }
        return entries
    }

    /// The parameters, without the dataclass.
    package var params: PropertyListDictionary {
        var params: PropertyListDictionary = ["items": items.isEmpty ? [] : .dictionary(items)]
        params["item_type"] = itemType.map { .string($0.rawValue) }
        params["idmap"] = idMap.isEmpty ? nil : .dictionary(idMap)
        params["anchors"] = anchors?.propertyList
        return params
    }

    // MARK: Items

    /// The item of an id.
    /// - Throws: `badValue` with the id, for `S_MultiStatus`: other items are not touched by it.
    package func item(_ id: String) throws(Status) -> Item { try item(id, items[id] ?? false) }

    /// The item of an id, with what is there for it.
    /// - Throws: as `item(_:)`.
    package func item(_ id: String, _ value: PropertyList) throws(Status) -> Item {
        func bad(_ reason: String) -> Status { Status(.badValue, reason, paramName: "items", paramKey: id) }
        guard let members = value.dictionary else { throw bad("no dictionary") }
        if let fault = value.fault { throw bad(fault) }
        func dictionary(_ key: String) throws(Status) -> PropertyListDictionary? {
            guard let value = members[key] else { return nil }
            guard let entries = value.dictionary else { throw bad("\(key) is not a dictionary") }
            return entries
        }
        let entity = members["entity"]?.string
        guard members["entity"] == nil || entity != nil else { throw bad("entity is not text") }
        guard itemType == .changes else {
            guard let entity else { throw bad("no entity") }
            switch (members["deleted"], try dictionary("fields")) {
            case (true?, nil): return .deletedRecord(entity: entity)
            case (nil, let fields?):
                let unchanged = fields.filter { $0.value == Self.unchanged }.map(\.key)
                var rest = fields
                for name in unchanged { rest[name] = nil }
                return .record(entity: entity, fields: rest, unchanged: unchanged)
            default: throw bad("neither fields nor deleted, or both")
            }
        }
        switch members["op"]?.string {
        case "add"?:
            guard let entity else { throw bad("no entity") }
            return .add(entity: entity, set: try dictionary("set") ?? [:])
        case "modify"?:
            var clear: [String] = []
            if let value = members["clear"] {
                let names = value.array?.compactMap(\.string)
                guard let names, names.count == value.array?.count else { throw bad("clear is not an array of texts") }
                clear = names
            }
            return .modify(
                entity: entity, set: try dictionary("set") ?? [:], clear: clear, conflict: try dictionary("conflict"))
        case "delete"?: return .delete(entity: entity)
        default: throw bad("op is none of add, modify, delete")
        }
    }

    private static let unchanged: PropertyList = ["no-change": true]

    /// The property list of an item.
    package static func propertyList(_ item: Item) -> PropertyList {
        switch item {
        case .record(let entity, var fields, let unchanged):
            for name in unchanged { fields[name] = Self.unchanged }
            return ["entity": .string(entity), "fields": .dictionary(fields)]
        case .deletedRecord(let entity): return ["entity": .string(entity), "deleted": true]
        case .add(let entity, let set): return ["op": "add", "entity": .string(entity), "set": .dictionary(set)]
        case .modify(let entity, let set, let clear, let conflict):
            var members: PropertyListDictionary = ["op": "modify"]
            members["entity"] = entity.map { .string($0) }
            members["set"] = set.isEmpty ? nil : .dictionary(set)
            members["clear"] = clear.isEmpty ? nil : .array(clear.map { .string($0) })
            members["conflict"] = conflict.map { .dictionary($0) }
            return .dictionary(members)
        case .delete(let entity):
            var members: PropertyListDictionary = ["op": "delete"]
            members["entity"] = entity.map { .string($0) }
            return .dictionary(members)
        }
    }
}
