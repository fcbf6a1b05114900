import AnabranchCore
import AnabranchTestClient
import AnabranchTesting

/// A Realm client in a world of devices, off line but for its syncs: it alone links to what others have erased
/// meanwhile, and makes again what it once had.
final class WorldRealmClient {
    /// The act of a transaction on the record with a tag.
    enum Deed: Sendable {
        case changed(tag: String, field: String, value: String)
        case linked(tag: String, to: String)
        case erased(tag: String)
        case revived(tag: String)
    }

    /// The objects of a class by their tags.
    private typealias Tagged = [(tag: String, object: DynamicObject)]

    private let client: TestClient
    private let url: String
    /// The keys of the groups that it has ever had, by dataclasses and tags.
    private var groups: [String: [String: PrimaryKey]] = [:]

    init(_ rig: DeviceRig) {
        client = TestClient(app: DeviceRig.app, partition: rig.partition)
        url = "ws://127.0.0.1:\(rig.port)"
    }

    var state: ObjectGraph { get async { await client.state } }

    /// Uploads and downloads.
    /// - Returns: false if the server did not know it any more: it has begun anew, without what it had not uploaded.
    func sync() async throws -> Bool {
        do {
            try await client.connect(to: url, token: "any")
            try await client.upload()
            try await client.download()
            await client.disconnect()
            return true
        } catch let error as TestClientError where error.code != nil {
            await client.reset()
            try await client.connect(to: url, token: "any")
            try await client.download()
            await client.disconnect()
            return false
        }
    }

    /// Makes a transaction on what it has.
    /// - Returns: nil if there was nothing to do it to.
    func write(_ seed: UInt64, in uri: String, at time: ChangesetTime) async throws -> Deed? {
        guard await client.ident != nil else { return nil }
        let suffix = String(uri.dropFirst(6)), known = groups[uri] ?? [:]
        let (deed, present) = try await client.write(at: time) { tx -> (Deed?, [String: PrimaryKey]) in
            guard tx.classNames.contains("item_\(suffix)") else { return (nil, [:]) }
            var random = SeededRandom(scrambling: seed)
            let items = try Self.tagged(tx, "item_\(suffix)"), groups = try Self.tagged(tx, "group_\(suffix)")
            let present = Dictionary(groups.compactMap { group in group.object.key.map { (group.tag, $0) } }) { $1 }
            let gone = known.filter { present[$0.key] == nil }.sorted { $0.key < $1.key }
            switch random.below(6) {
            case 0 where !gone.isEmpty:
                let (tag, key) = random.pick(gone)
                let group = try tx.create("group_\(suffix)", key: key)
                group["tag"] = .string(Array(tag.utf8))
                return (.revived(tag: tag), present)
            case 0..<3 where !groups.isEmpty && !items.isEmpty:
                return (try Self.link(random.pick(items), to: random.pick(groups)), present)
            case 3 where !groups.isEmpty:
                let group = random.pick(groups)
                try tx.delete(group.object)
                return (.erased(tag: group.tag), present)
            default:
                if items.isEmpty, groups.isEmpty { return (nil, present) }
                let (tag, object) = random.pick(items + groups)
                let field = random.pick(["a", "b"]), value = "\(field)\(random.below(1_000)) of Realm"
                object[field] = .string(Array(value.utf8))
                return (.changed(tag: tag, field: field, value: value), present)
            }
        }
        groups[uri] = known.merging(present) { $1 }
        return deed
    }

    private static func tagged(_ tx: WriteTransaction, _ className: String) throws -> Tagged {
        var tagged: Tagged = []
        for object in try tx.objects(className) {
            guard case .string(let tag) = try object.value("tag") else { continue }
            tagged.append((String(decoding: tag, as: UTF8.self), object))
        }
        return tagged.sorted { $0.tag < $1.tag }
    }

    private static func link(
        _ item: (tag: String, object: DynamicObject), to group: (tag: String, object: DynamicObject)
    ) throws -> Deed? {
        let list = try item.object.list("groups")
        guard try !list.values.contains(group.object.link) else { return nil }
        try list.append(group.object.link)
        return .linked(tag: item.tag, to: group.tag)
    }
}
