import AnabranchCore
import AnabranchHistory
import AnabranchRules
import AnabranchTesting
import Testing

/// A flexible file with a class, and a client that asks for all of its objects.
struct FlexibleFixture {
    let test: TestStore
    private(set) var synced: SyncedFile
    private(set) var file: FlexibleFile
    var client: MemoryClient
    var session: ViewSession
    private(set) var time: UInt64 = 1

    static let all = SubscriptionSet(version: 1, query: Array(#"{"Note":"TRUEPREDICATE"}"#.utf8))

    init(_ kind: StoreKind) throws {
        test = try TestStore(kind)
        synced = try SyncedFile(path: VirtualPath("notes"), store: test.store)
        file = try FlexibleFile(synced)
        try file.write(at: 1) { transaction in
            try transaction.addClass("Note", key: "_id", .int)
            try transaction.addColumn("text", .string, to: "Note")
            try transaction.addClass("Reading", key: "_id", .int, isAsymmetric: true)
            try transaction.addColumn("value", .double, to: "Reading")
        }
        (client, session) = try Self.join(synced, file)
        try integrate()
        #expect(try file.query(Self.all, in: &session) == nil)
        try integrate()
    }

    static func join(_ synced: SyncedFile, _ file: FlexibleFile) throws -> (MemoryClient, ViewSession) {
        let client = MemoryClient(try synced.allocateIdents(for: [nil], at: 1)[0])
        return (client, try file.identify(client.identRequest))
    }

    /// Another client that has everything, and has confirmed it.
    func joined() throws -> FlexibleFixture {
        var other = self
        (other.client, other.session) = try Self.join(synced, file)
        try other.integrate()
        #expect(try file.query(Self.all, in: &other.session) == nil)
        try other.integrate()
        try other.upload()
        return other
    }

    /// The server writes an object.
    mutating func create(_ key: Int64, bytes: Int = 1) throws {
        time += 1
        let text = Payload.string([UInt8](repeating: 0x61, count: bytes))
        try file.write(at: ChangesetTime(rawValue: time)) { transaction in
            try transaction.create("Note", key: .int(key), ["text": text])
        }
    }

    /// The client takes in what there is.
    mutating func integrate() throws {
        while let message = try file.download(for: &session) { try client.integrate(message.download) }
    }

    /// The client uploads what it has, and confirms what it was sent.
    mutating func upload() throws {
        while let upload = client.nextUpload(.max), let rest = try session.progress.accept(upload) {
            if try !file.recordProgress(rest, from: client.ident, at: 1) {
                try file.integrate(rest, from: client.ident, at: 1)
            }
        }
        try synced.writeProgress()
    }

    mutating func restart(isClosed: Bool = false) throws {
        try test.restart(isClosed: isClosed)
        synced = try SyncedFile(path: VirtualPath("notes"), store: test.store)
        file = try FlexibleFile(synced)
    }

    /// The client comes back.
    mutating func identify(rules: UserRules = .everything) throws {
        var request = client.identRequest
        request.subscriptions = Self.all
        client.startSession()
        session = try file.identify(request, rules: rules)
    }

    func objectCount(of name: String = "Note") throws -> Int {
        try client.state.read { try $0.objects(name).count }
    }
}
