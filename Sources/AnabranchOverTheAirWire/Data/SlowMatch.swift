import AnabranchCore
import AnabranchPropertyList

/// Finds the records of the server that the records of a device are (`Spec/OverTheAirServer.md`, section 5). A record
/// of either side is matched once.
struct SlowMatch {
    let view: RecordView
    /// The records of the server by entity, in the order of their keys.
    private var others: [[(id: RecordID, fields: RecordFields)]]
    private(set) var pairs: [ExactString: RecordID] = [:]
    /// Those that were found by the ids that the device has given before.
    private(set) var byID: Set<ExactString> = []
    /// Those that were found by an identity; the rest by all fields.
    private(set) var byIdentity: Set<ExactString> = []
    private var taken: Set<RecordID> = []
    /// Those that are found by their ids alone.
    private let deleted: Set<RecordID>

    /// - Parameter deleted: records of the server that the device has deleted.
    init(_ view: RecordView, without deleted: Set<RecordID>) throws {
        (self.view, self.deleted) = (view, deleted)
        others = view.dataclass.entities.map { _ in [] }
        try view.forEach { id, object in
            others[id.entity].append((id, try view.record(object, of: id.entity)))
        }
    }

    private mutating func pair(_ item: ReadItem, _ id: RecordID) {
        pairs[ExactString(item.id)] = id
        taken.insert(id)
    }

    /// - Parameters:
    ///   - isTrusted: true if the device has the data of the last sync.
    ///   - supported: the fields of an entity that the device knows; nil for all.
    mutating func match(
        _ items: [ReadItem], isTrusted: Bool, _ supported: (Dataclass.Entity) throws -> Set<ExactString>?
    ) throws {
        for (number, entity) in view.dataclass.entities.enumerated() where !others[number].isEmpty {
            let items = items.filter { $0.entity == number }
            let fields = Dictionary(uniqueKeysWithValues: others[number].map { ($0.id, $0.fields) })
            // By the ids of before.
            for item in items {
                guard let id = item.target, !taken.contains(id), let record = fields[id] else { continue }
                guard isTrusted || item.agrees(with: record, entity) else { continue }
                pair(item, id)
                byID.insert(ExactString(item.id))
            }
            for identity in entity.identities where items.contains(where: { pairs[ExactString($0.id)] == nil }) {
                var found = candidates(number) { fields in Self.folded(identity) { fields[$0] } }
                for item in items where pairs[ExactString(item.id)] == nil {
                    guard let key = Self.folded(identity, { item.told[$0] }) else { continue }
                    guard let id = best(for: item, among: found[key], fields) else { continue }
                    Self.remove(id, from: &found[key, default: []])
                    pair(item, id)
                    byIdentity.insert(ExactString(item.id))
                }
            }
            guard items.contains(where: { pairs[ExactString($0.id)] == nil }) else { continue }
            let known = try supported(entity)
            let compared = entity.fields.keys.sorted().filter { known?.contains(ExactString($0)) ?? true }
            var found = candidates(number) { fields in Self.exact(compared) { fields[$0] } }
            for item in items where pairs[ExactString(item.id)] == nil {
                guard let key = Self.exact(compared, { item.told[$0] }) else { continue }
                let fitting = found[key]?.suffix(Self.lookedAt).filter { agree(item, fields[$0] ?? [:]) }
                guard let id = best(for: item, among: fitting, fields) else { continue }
                Self.remove(id, from: &found[key, default: []])
                pair(item, id)
            }
            matchKeys(items, number, fields)
        }
    }

    /// Finds the records whose keys the device has given to others: an id is the key of one record.
    private mutating func matchKeys(_ items: [ReadItem], _ entity: Int, _ fields: [RecordID: RecordFields]) {
        for item in items where pairs[ExactString(item.id)] == nil {
            guard let id = view.candidates(item.id, of: entity).first, fields[id] != nil, !taken.contains(id) else {
                continue
            }
            pair(item, id)
            byID.insert(ExactString(item.id))
        }
    }

    private func candidates<Key: Hashable>(_ entity: Int, _ key: (RecordFields) -> Key?) -> [Key: [RecordID]] {
        var found: [Key: [RecordID]] = [:]
        // The smallest key at the end, where one is taken out at once.
        for (id, fields) in others[entity].reversed() where !taken.contains(id) && !deleted.contains(id) {
            if let key = key(fields) { found[key, default: []].append(id) }
        }
        return found
    }

    /// How many candidates are looked at.
    private static let lookedAt = 64

    /// The candidate with most equal fields, of several the one with the smallest key, which comes last.
    private func best(
        for item: ReadItem, among ids: [RecordID]?, _ fields: [RecordID: RecordFields]
    ) -> RecordID? {
        var best: (id: RecordID, count: Int)?
        for id in ids?.suffix(Self.lookedAt).reversed() ?? [] {
            let count = item.sent.keys.count { item.told[$0] == fields[id]?[$0] }
            if best.map({ count > $0.count }) ?? true { best = (id, count) }
        }
        return best?.id
    }

    private static func remove(_ id: RecordID, from ids: inout [RecordID]) {
        if let index = ids.lastIndex(of: id) { ids.remove(at: index) }
    }

    /// True if the links of both lead to the same records, as far as those are matched already.
    private func agree(_ item: ReadItem, _ fields: RecordFields) -> Bool {
        item.links.allSatisfy { name, links in
            let matched = links.map { pairs[ExactString($0)].flatMap(view.text) }
            guard matched.allSatisfy({ $0 != nil }) else { return true }
            return PropertyList.texts(matched.compactMap { $0 }) == fields[name] ?? []
        }
    }

    /// The values of an identity, folded; nil if one is empty.
    private static func folded(_ names: [String], _ value: (String) -> PropertyList?) -> [PropertyList]? {
        var key: [PropertyList] = []
        for name in names {
            switch value(name) {
            case .string(let text)?:
                if text.isEmpty { return nil }
                key.append(.string(text.folded))
            case let other?: key.append(other)
            case nil: return nil
            }
        }
        return key
    }

    /// All values; nil if there is none.
    private static func exact(_ names: [String], _ value: (String) -> PropertyList?) -> [PropertyList?]? {
        let key = names.map(value)
        return key.contains { $0 != nil } ? key : nil
    }
}

extension String {
    /// The text without differences of case and width.
    fileprivate var folded: String {
        var plain = UnicodeScalarView()
        for scalar in unicodeScalars {
            switch scalar.value {
            case 0xFF01...0xFF5E: plain.append(Unicode.Scalar(scalar.value - 0xFEE0) ?? scalar)
            case 0x3000: plain.append(" ")
            default: plain.append(scalar)
            }
        }
        return String(plain).lowercased()
    }
}

extension ReadItem {
    /// True if an identity of the entity, or half of the fields, are the same.
    fileprivate func agrees(with record: RecordFields, _ entity: Dataclass.Entity) -> Bool {
        let equal = Set(told.filter { $0.value == record[$0.key] }.map(\.key))
        if entity.identities.contains(where: { $0.allSatisfy(equal.contains) }) { return true }
        return !sent.isEmpty && equal.count * 2 >= sent.count
    }
}
