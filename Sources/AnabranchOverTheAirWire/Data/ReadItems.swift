import AnabranchCore
import AnabranchOverTheAir
import AnabranchPropertyList

/// An item of a device's, read and checked but for its links.
struct ReadItem {
    enum Kind {
        /// A record as a whole; the names are fields that are what they were.
        case record(unchanged: Set<ExactString>)
        case add
        case modify(clear: [String])
        case delete
    }

    var id: String
    var kind: Kind
    /// The entity; nil of a deletion of something unknown.
    var entity: Int
    /// The record that the id leads to; nil for one that is new.
    var target: RecordID?
    /// The fields but for relationships, as they came.
    var sent: PropertyListDictionary = [:]
    /// Those of them that have values, in the form for devices.
    var told: RecordFields = [:]
    var links: [(name: String, ids: [String])] = []
    /// The records that the links lead to, by the server's ids.
    var linked: [(name: String, ids: [String])] = []
    /// The record as the device knew it, as far as the item is about it, if it has waited for a commit.
    var known: KnownRecord?

    var isWhole: Bool { if case .record = kind { true } else { false } }

    /// Gives up the fields of an item that has been carried out.
    mutating func giveUp() { (sent, told) = ([:], [:]) }
}

/// Reads the items of a dataclass.
final class ItemReader {
    private let data: FileData
    private let feed: Feed?
    let ids: LocalIDs
    private(set) var failures: [ExactString: Status] = [:]
    /// The entities of records that came before in the pull.
    private var added: [ExactString: Int] = [:]

    private var dataclass: Dataclass { ids.view.dataclass }

    /// - Parameter feed: the changes since the device's anchor, if it came with one.
    init(_ data: FileData, _ dataclass: Dataclass, _ feed: Feed?) {
        (self.data, self.feed) = (data, feed)
        ids = data.localIDs(dataclass)
    }

    /// The items of all commands in their order, without those that are refused.
    /// - Parameters:
    ///   - isMatched: true if ids without a record of the device's lead nowhere: a slow sync finds out where.
    ///   - target: the record that all of them are about; nil if their ids say that.
    func items(of pull: Pull, isMatched: Bool, target: RecordID? = nil) throws -> [ReadItem] {
        var items: [ReadItem] = []
        items.reserveCapacity(pull.commands.reduce(0) { $0 + $1.changes.items.count })
        for command in pull.commands {
            for (id, value) in command.changes.items {
                do {
                    if pull.direction == .toDevice || pull.mode == .reset || !data.canWrite {
                        throw Status(.notAllowed, paramName: "items", paramKey: id)
                    }
                    if !data.tooLarge.isEmpty, data.tooLarge.contains([ExactString(pull.uri), ExactString(id)]) {
                        throw Status(.limitExceeded, "the record is too large", paramName: "items", paramKey: id)
                    }
                    let change = try command.changes.item(id, value)
                    guard let item = try read(id, change, target, isMatched: isMatched) else { continue }
                    if item.isNewOrWhole { added[ExactString(id)] = item.entity }
                    items.append(item)
                } catch let status as Status {
                    failures[ExactString(id)] = status
                }
            }
        }
        return items
    }

    private func bad(_ id: String, _ reason: String) -> Status {
        Status(.badValue, reason, paramName: "items", paramKey: id)
    }

    /// - Returns: nil if there is nothing to do, as what it is about has gone.
    private func read(
        _ id: String, _ item: Changes.Item, _ known: RecordID?, isMatched: Bool
    ) throws -> ReadItem? {
        var name: String?
        switch item {
        case .record(let entity, _, _), .deletedRecord(let entity), .add(let entity, _): name = entity
        case .modify(let entity, _, _, _), .delete(let entity): name = entity
        }
        var entity = name.flatMap(dataclass.index(ofEntity:))
        if let name, entity == nil { throw bad(id, "no entity \(String(excerptOf: name.utf8))") }
        let local = try known ?? ids.record(id, of: entity, data.records)
        var target = local
        if target == nil {
            let candidates = ids.view.candidates(id, of: entity ?? added[ExactString(id)])
            target = try candidates.first { try ids.view.object($0) != nil }
            guard target != nil || id.utf8.count <= LocalIDs.bytesMax else {
                throw bad(id, "the id of a new record has at most \(LocalIDs.bytesMax) bytes")
            }
            // An id of the server's form of a record that is not there: it was, or the device makes it.
            if target == nil, !isMatched || !item.isWhole {
                target = candidates.first { feed?.ids.contains($0) ?? false } ?? candidates.first
            }
        }
        if let target, let entity, entity != target.entity { throw bad(id, "the record is of another entity") }
        let before = added[ExactString(id)]
        entity = entity ?? target?.entity ?? before
        guard let entity else {
            if case .delete = item { return nil }
            throw bad(id, "the id is not known")
        }
        var read = ReadItem(id: id, kind: .delete, entity: entity, target: target)
        switch item {
        case .record(_, let fields, let unchanged):
            read.kind = .record(unchanged: Set(unchanged.map { ExactString($0) }))
            try fill(&read, fields)
        case .add(_, let set):
            read.kind = .add
            try fill(&read, set)
        case .modify(_, let set, let clear, _):
            guard target != nil || before == entity else { throw bad(id, "the id is not known") }
            if let unknown = clear.first(where: { !dataclass.entities[entity].has($0) }) {
                throw bad(id, "no field \(String(excerptOf: unknown.utf8))")
            }
            read.kind = .modify(clear: clear)
            try fill(&read, set)
        case .deletedRecord, .delete: if target == nil, before != entity { return nil }
        }
        return read
    }

    private func fill(_ item: inout ReadItem, _ fields: PropertyListDictionary) throws(Status) {
        (item.sent, item.told) = (fields, fields)
        var parts = ids.view.parts(of: item.entity)
        for (name, value) in fields {
            switch parts.part(name)?.kind {
            case .field(let type)?:
                let told: PropertyList?
                do { told = try type.read(value) } catch { throw bad(item.id, "\(name): \(error.reason)") }
                if told != value { item.told[name] = told }
            case .relationship(_, let isMany)?:
                let links = value.array?.compactMap(\.string)
                guard let links, links.count == value.array?.count, isMany || links.count <= 1 else {
                    throw bad(item.id, "\(name) is not an array of \(isMany ? "ids" : "one id")")
                }
                item.links.append((name, links))
                (item.sent[name], item.told[name]) = (nil, nil)
            case nil: throw bad(item.id, "no field \(String(excerptOf: name.utf8))")
            }
        }
    }

    // MARK: Links

    /// Finds the records that links lead to. Items with links that lead nowhere are refused, and then what links to
    /// them, and what else is about them.
    /// - Parameters:
    ///   - found: the records of ids, before those that the device's map has.
    ///   - new: those of them that are there only if their item is not refused.
    func resolve(
        _ items: inout [ReadItem], _ found: [ExactString: RecordID], new: Set<ExactString>
    ) throws {
        var refused: [Int: Status] = [:]
        for index in items.indices where !items[index].links.isEmpty {
            do {
                for (name, links) in items[index].links {
                    items[index].linked.append((name, try linked(links, name, in: items[index], found)))
                }
            } catch let status as Status {
                refused[index] = status
            }
        }
        if refused.isEmpty { return }
        // The items that go with an id.
        var dependents: [ExactString: Set<Int>] = [:]
        for (index, item) in items.enumerated() {
            for id in [item.id] + item.links.flatMap(\.ids) where new.contains(ExactString(id)) {
                dependents[ExactString(id), default: []].insert(index)
            }
        }
        var left = new.subtracting(items.map { ExactString($0.id) }).union(
            refused.keys.map { ExactString(items[$0].id) }.filter(new.contains))
        while let id = left.popFirst() {
            for index in dependents[id] ?? [] where refused[index] == nil {
                refused[index] = bad(items[index].id, "a record was refused that it needs")
                let next = ExactString(items[index].id)
                if new.contains(next) { left.insert(next) }
            }
        }
        for (index, status) in refused { failures[ExactString(items[index].id)] = status }
        items = items.indices.filter { refused[$0] == nil }.map { items[$0] }
    }

    private func linked(
        _ links: [String], _ name: String, in item: ReadItem, _ found: [ExactString: RecordID]
    ) throws -> [String] {
        guard case .relationship(let target, _)? = ids.view.part(name, of: item.entity)?.kind else { return [] }
        return try links.compactMap { link in
            let id =
                try found[ExactString(link)] ?? ids.record(link, of: target, data.records)
                ?? ids.view.candidates(link, of: target).first
            guard let id, id.entity == target else {
                throw bad(item.id, "\(name): no \(dataclass.entities[target].name) \(String(excerptOf: link.utf8))")
            }
            return ids.view.text(of: id)
        }
    }
}

extension Changes.Item {
    fileprivate var isWhole: Bool {
        switch self {
        case .record, .add: true
        default: false
        }
    }
}
