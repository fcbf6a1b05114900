import AnabranchCore
import AnabranchSimperium
import Synchronization

@testable import AnabranchHistory
@testable import AnabranchSimperiumWire

/// A file in memory with Simperium's door and one bucket.
final class MemoryDoor {
    static let bucketName = "note"
    private static let now: UInt64 = 1_000_000_000
    private static let settings = DoorSettings()
    private let bucketSettings: BucketSettings
    var form: BucketForm { bucketSettings.form }
    private let file: SyncedFile

    private init(on store: InMemoryStore, _ form: BucketForm) throws {
        var settings = BucketSettings()
        settings.form = form
        // Small enough for inputs to reach the limit.
        settings.entityBytesMax = 1_000
        bucketSettings = settings
        file = try SyncedFile(path: VirtualPath("/app/\"simperium/ann\""), store: store)
        var app = SimperiumApp()
        app.buckets[Self.bucketName] = settings
        file.observers = [SimperiumObserver(app: app, settings: Self.settings, unixSeconds: { Self.now })]
    }

    /// Files whose doors are open, by the form of the bucket; none if they cannot be made.
    private static let opened = Dictionary(
        uniqueKeysWithValues: BucketForm.allCases.compactMap { form -> (BucketForm, InMemoryStore)? in
            let store = InMemoryStore()
            let door = try? MemoryDoor(on: store, form)
            let version = try? door?.write { transaction, records in
                if form == .typed { try MemoryDoor.addClass(to: transaction) }
                records.set(DoorRow(position: 0, logSalt: 0, salt: 0x5A17, bucketCount: 0))
                return []
            }
            return version.map { _ in (form, store) }
        })

    /// The class of the form `typed`, with properties of the names that inputs have.
    private static func addClass(to transaction: WriteTransaction) throws {
        try transaction.addEmbeddedClass("inner")
        try transaction.addColumn("x", .int, to: "inner")
        try transaction.addColumn("y", .null, to: "inner")
        try transaction.addClass(bucketName, key: "id", .string)
        for (name, type, isNullable, collection) in [
            ("t", .string, false, .single), ("n", .int, false, .single), ("a", .null, true, .single),
            ("b", .double, true, .single), ("l", .int, false, .list), ("s", .null, true, .set),
            ("d", .string, true, .dictionary), ("at", .timestamp, true, .single), ("m", .null, true, .list),
        ] as [(String, PayloadType, Bool, CollectionType)] {
            try transaction.addColumn(name, type, isNullable: isNullable, collection: collection, to: bucketName)
        }
        for (name, collection) in [("o", .single), ("os", .list), ("od", .dictionary)] as [(String, CollectionType)] {
            try transaction.addLink(name, to: "inner", collection: collection, of: bucketName)
        }
        try transaction.addLink("k", to: bucketName, of: bucketName)
    }

    /// A new file whose door is open.
    convenience init(_ form: BucketForm = .flat) throws {
        guard let store = Self.opened[form] else { throw HistoryError(.storeFailed, "there is no file") }
        try self.init(on: store.copy(), form)
    }

    private func write(_ body: @escaping HeadWrite.Body) throws -> ServerVersion {
        let prepared = try file.prepare([HeadWrite(at: 1, body)])
        try file.commit(prepared.commit)
        return try prepared.outcomes[0].get()
    }

    func read<Value: Sendable>(_ body: (BucketReader) throws -> Value) throws -> Value {
        try file.readHead { transaction, records in
            try body(
                BucketReader(
                    graph: transaction.state, records: records, door: records.openDoor(), settings: Self.settings,
                    now: Self.now))
        }
    }

    /// Carries out a change.
    func perform(_ request: ChangeRequest) throws -> ChangeOutcome {
        let writer = ChangeWriter(
            request: request, bucketName: Self.bucketName, bucketSettings: bucketSettings,
            settings: Self.settings, now: Self.now)
        let decided = Mutex(ChangeOutcome.accepted)
        do {
            _ = try write { transaction, records in
                let (outcome, author) = try writer.perform(transaction, &records)
                decided.withLock { $0 = outcome }
                return author
            }
        } catch let refusal as JSONDiffError {
            return .refused(refusal)
        }
        return decided.withLock { $0 }
    }
}

extension BucketReader {
    /// The only bucket; nil if nothing has been written to it.
    func onlyBucket() throws -> Bucket? { try records.bucket(named: MemoryDoor.bucketName) }

    /// The problem with a page, and all that follow it; nil if there is none.
    func listingProblem(_ request: ListingRequest) throws -> String? {
        guard let bucket = try onlyBucket() else { return nil }
        var request = request, listed: Set<ExactString> = [], current: JSONValue?
        while true {
            let page = try page(request, of: bucket, named: bucket.name)
            guard let json = try? JSONValue(parsing: page.text.utf8, depthMax: Change.jsonDepth),
                let entries = json["index"]?.array
            else { return "no page: \(page.text)" }
            guard entries.count <= request.limit, !entries.isEmpty || page.isLast else {
                return "a page of \(entries.count)"
            }
            if let current, json["current"] != current { return "the listing has changed its version" }
            current = json["current"]
            for entry in entries {
                guard let key = entry["id"]?.string, let version = entry["v"]?.integer,
                    let body = try entity(key, of: bucket, at: UInt64(version))
                else { return "what is listed is not there: \(entry.encoded)" }
                guard listed.insert(ExactString(key)).inserted else { return "\(key) is listed twice" }
                if request.hasData, entry["d"]?.isSameJSON(as: .object(body)) != true {
                    return "\(key) has other members"
                }
            }
            guard let mark = json["mark"]?.string else { return page.isLast ? nil : "a mark is missing" }
            guard !page.isLast, ListingMark(mark)?.text == mark else { return "not a mark: \(mark)" }
            request.mark = mark
        }
    }
}
