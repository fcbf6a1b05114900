import AnabranchCore
import AnabranchOverTheAir
import AnabranchPropertyList

/// Writes the fields of records, and knows what they are afterwards.
struct RecordWriter {
    let transaction: WriteTransaction
    /// The records before anything was written.
    let view: RecordView
    /// Records that were looked at or written, as they are now.
    private var current: [RecordID: KnownRecord] = [:]
    private var erased: Set<ExactString> = []
    /// The object that was written last: the fields of one record come one after the other.
    private var newest: (id: RecordID, object: DynamicObject)?

    init(_ transaction: WriteTransaction, _ view: RecordView) { (self.transaction, self.view) = (transaction, view) }

    mutating func record(_ id: RecordID) throws -> RecordFields? {
        if let known = current[id] { return known.fields }
        let record = try view.record(id)
        current[id] = KnownRecord(fields: record)
        return record
    }

    /// True if a record is the one that is there now; both are kept as one then.
    mutating func has(_ record: RecordFields, as id: RecordID) throws -> Bool {
        guard try self.record(id) == record else { return false }
        current[id] = KnownRecord(fields: record)
        return true
    }

    private func reference(_ id: RecordID) throws -> ObjectReference {
        guard let reference = view.reference(id) else {
            throw Self.misfit(view.dataclass.entities[id.entity].className)
        }
        return reference
    }

    private mutating func object(_ id: RecordID) throws -> DynamicObject? {
        if let newest, newest.id == id { return newest.object }
        guard let object = try transaction.object(try reference(id)) else { return nil }
        newest = (id, object)
        return object
    }

    /// The error of a class or column that was erased since the start.
    private static func misfit(_ name: String) -> Status {
        Status(.notSupported, "\(name) is not in the file any more", paramName: "uri")
    }

    mutating func create(_ id: RecordID) throws {
        let reference = try reference(id)
        newest = (id, try transaction.create(reference.classID, reference.key).object)
        current[id] = KnownRecord(fields: view.initial(of: id.entity))
    }

    mutating func erase(_ id: RecordID) throws {
        guard let object = try object(id) else { return }
        newest = nil
        try transaction.delete(object)
        current[id] = KnownRecord(fields: nil)
        if let text = view.text(of: id) { erased.insert(ExactString(text)) }
    }

    /// Sets the fields of a record that has none.
    /// - Parameter keepsFields: false if nobody asks for them afterwards, but only if it is there.
    mutating func fill(_ id: RecordID, with item: ReadItem, keepsFields: Bool) throws {
        guard let object = try object(id) else { return }
        var parts = view.parts(of: id.entity), sent = item.sent[...]
        for (name, _) in item.told {
            // Both are in the order of their names; values that are none are only in what was sent.
            sent = sent.drop { !$0.key.hasBytes(of: name) }
            if let part = parts.part(name), let value = sent.first?.value { try write(value, to: part, of: object) }
        }
        if keepsFields { current[id] = KnownRecord(fields: item.told) }
    }

    /// Sets a field, if it is another value than now.
    /// - Parameter told: the value in the form for devices.
    mutating func set(_ name: String, to value: PropertyList, told: PropertyList?, of id: RecordID) throws {
        guard let part = view.part(name, of: id.entity), let object = try object(id), try record(id)?[name] != told
        else {
            return
        }
        try write(value, to: part, of: object)
        current[id]?.fields?[name] = told
    }

    private func write(_ value: PropertyList, to part: RecordPart, of object: DynamicObject) throws {
        guard case .field(let type) = part.kind else { return }
        guard let property = part.property else { throw Self.misfit(part.column) }
        switch type.collection {
        case .list:
            let list = try object.list(part.column)
            try list.removeAll()
            for element in try type.elements(value) { try list.append(element) }
        case .dictionary:
            let dictionary = try object.dictionary(part.column)
            try dictionary.removeAll()
            for (key, element) in try type.entries(value) { try dictionary.set(element, for: key) }
        default: try object.set(property, to: try type.payload(value))
        }
    }

    /// Removes the value of a field: it becomes null, or the initial value where null does not fit.
    mutating func clear(_ name: String, of id: RecordID) throws {
        guard let part = view.part(name, of: id.entity), try record(id)?[name] != nil, let object = try object(id)
        else {
            return
        }
        guard case .field(let type) = part.kind else { return _ = try set(name, toLinks: [], of: id) }
        guard let property = part.property else { throw Self.misfit(part.column) }
        var left: PropertyList?
        switch type.collection {
        case .list: try object.list(part.column).removeAll()
        case .dictionary: try object.dictionary(part.column).removeAll()
        default:
            if property.isNullable {
                try object.set(property, to: .null)
            } else {
                try object.set(property, to: type.initialPayload)
                left = type.initialTold
            }
        }
        current[id]?.fields?[name] = left
    }

    /// Makes a relationship lead to other records, with few changes of the list.
    /// - Returns: the server's ids of those that it leads to: what has been erased is left out.
    @discardableResult
    mutating func set(_ name: String, toLinks ids: [String], of id: RecordID) throws -> [String] {
        guard let part = view.part(name, of: id.entity), case .relationship(let target, let isMany) = part.kind,
            let object = try object(id), let record = try record(id)
        else { return [] }
        guard let property = part.property else { throw Self.misfit(part.column) }
        var kept: [String] = [], links: [Payload] = []
        for text in ids where !erased.contains(ExactString(text)) {
            guard let linked = view.candidates(text, of: target).first, try self.record(linked) != nil,
                let link = try self.object(linked)?.link
            else { continue }
            kept.append(text)
            links.append(link)
        }
        let told = record[name]?.array?.compactMap(\.string).filter { !erased.contains(ExactString($0)) } ?? []
        guard PropertyList.texts(told) != .texts(kept) else { return kept }
        if isMany {
            try object.list(part.column).become(links)
        } else {
            try object.set(property, to: links.first ?? .null)
        }
        current[id]?.fields?[name] = kept.isEmpty ? nil : .texts(kept)
        return kept
    }

    /// The links that result from a device's change of an array: its additions and removals since `base`, applied to
    /// the present array, and its order if the device has changed that.
    static func merged(_ base: [String], _ device: [String], over current: [String]) -> [String] {
        func exact(_ ids: [String]) -> [ExactString] { ids.map { ExactString($0) } }
        return merged(exact(base), exact(device), over: exact(current)).map(\.text)
    }

    private static func merged(
        _ base: [ExactString], _ device: [ExactString], over current: [ExactString]
    ) -> [ExactString] {
        let (old, wanted) = (Set(base), Set(device))
        guard current != base, old.count == base.count, wanted.count == device.count,
            Set(current).count == current.count
        else { return device }
        var merged = current.filter { wanted.contains($0) || !old.contains($0) }
        let kept = Set(merged)
        if base.filter(wanted.contains) != device.filter(old.contains) {
            var ordered = device.filter(kept.contains)[...]
            merged = merged.map { wanted.contains($0) ? ordered.removeFirst() : $0 }
        }
        // Added links go after the one that precedes them on the device.
        var added: [ExactString?: [ExactString]] = [:], before: ExactString?
        for id in device {
            if kept.contains(id) {
                before = id
            } else if !old.contains(id) {
                added[before, default: []].append(id)
            }
        }
        return (added[nil] ?? []) + merged.flatMap { [$0] + (added[$0] ?? []) }
    }
}

extension DynamicList {
    /// Adds an element, with all that is in it.
    fileprivate func append(_ element: FieldType.Element) throws(ApplyError) {
        switch element {
        case .value(let payload): try append(payload)
        case .list(let elements):
            try append(.list)
            let list = try list(at: try count - 1)
            for element in elements { try list.append(element) }
        case .dictionary(let entries):
            try append(.dictionary)
            let dictionary = try dictionary(at: try count - 1)
            for (key, element) in entries { try dictionary.set(element, for: key) }
        }
    }

    /// Makes the list have other elements: what stands at both ends already stays.
    fileprivate func become(_ new: [Payload]) throws(ApplyError) {
        let old = try values
        let first = zip(old, new).prefix { $0 == $1 }.count
        let last = zip(old.dropFirst(first).reversed(), new.dropFirst(first).reversed()).prefix { $0 == $1 }.count
        try removeSubrange(first..<old.count - last)
        for index in first..<new.count - last { try insert(new[index], at: index) }
    }
}

extension DynamicDictionary {
    /// Sets an entry, with all that is in it.
    fileprivate func set(_ element: FieldType.Element, for key: String) throws(ApplyError) {
        switch element {
        case .value(let payload): try set(payload, for: key)
        case .list(let elements):
            try set(.list, for: key)
            let list = try list(for: key)
            for element in elements { try list.append(element) }
        case .dictionary(let entries):
            try set(.dictionary, for: key)
            let dictionary = try dictionary(for: key)
            for (key, element) in entries { try dictionary.set(element, for: key) }
        }
    }
}
