import AnabranchHistory
import AnabranchSimulation
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchCore

/// The effects of single operations on a flexible file; the whole is in `FlexibleRunTests`.
@Suite struct FlexibleFileTests {
    private struct Device {
        var client: MemoryClient
        var session: ViewSession
    }

    private static func open(_ test: TestStore) throws -> FlexibleFile {
        try FlexibleFile(SyncedFile(path: VirtualPath("app"), store: test.store))
    }

    private static func connect(_ file: FlexibleFile, _ predicates: [String: String] = [:]) throws -> Device {
        let salted = try file.file.allocateIdents(for: [nil], at: 1)[0]
        var request = IdentRequest(file: salted)
        request.subscriptions = SubscriptionSet.none
        var device = Device(client: MemoryClient(salted), session: try file.identify(request))
        try receive(&device, from: file)
        guard !predicates.isEmpty else { return device }
        let query = SubscriptionSet(version: 1, query: Array(try JSONEncoder().encode(predicates)))
        #expect(try file.query(query, in: &device.session) == nil)
        try receive(&device, from: file)
        return device
    }

    private static func receive(_ device: inout Device, from file: FlexibleFile) throws {
        while let message = try file.download(for: &device.session) { try device.client.integrate(message.download) }
    }

    private static func upload(_ device: inout Device, to file: FlexibleFile) throws {
        while let upload = device.client.nextUpload(), let rest = try device.session.progress.accept(upload) {
            try file.integrate(rest, from: device.client.ident, at: 1)
        }
    }

    private static func addClass(_ transaction: WriteTransaction) throws {
        try transaction.addClass("Task", key: "_id", .int)
        try transaction.addColumn("owner", .string, to: "Task")
        try transaction.addColumn("count", .int, to: "Task")
    }

    private static func create(_ id: Int64, _ owner: String, in transaction: WriteTransaction) throws {
        try transaction.create("Task", key: .int(id), ["owner": .string(Array(owner.utf8)), "count": .int(0)])
    }

    /// The server would look for the object as it was before, in a class that was not there.
    @Test(arguments: StoreKind.allCases)
    func aChangesetMayAddAClassAndItsFirstObject(kind: StoreKind) throws {
        let test = try TestStore(kind), file = try Self.open(test)
        var writer = try Self.connect(file)
        // It has no query for the class, so its object is refused; the class stays.
        try writer.client.write(at: 1) { transaction in
            try Self.addClass(transaction)
            try Self.create(1, "ann", in: transaction)
        }
        try Self.upload(&writer, to: file)
        var reader = try Self.connect(file, ["Task": "TRUEPREDICATE"])
        #expect(try reader.client.state.read { try $0.objects("Task").count } == 0)
        _ = try file.write(at: 2) { try Self.create(2, "ann", in: $0) }
        try Self.receive(&reader, from: file)
        #expect(try reader.client.state.read { try $0.objects("Task").count } == 1)
        // And by the server, while somebody sees everything.
        _ = try file.write(at: 3) { transaction in
            try transaction.addClass("Note", key: "_id", .int)
            try transaction.create("Note", key: .int(1), [:])
        }
        try Self.receive(&reader, from: file)
        #expect(try reader.client.state.read { try $0.objects("Note").count } == 0)
    }

    /// A commit asks the views that its objects can be in, before or after it, and no others, however many there are.
    @Test(arguments: [10, 10_000]) func aCommitAsksTheViewsThatItCanConcern(_ count: Int) throws {
        let file = try Self.open(TestStore(.memory))
        _ = try file.write(at: 1) { transaction in
            try Self.addClass(transaction)
            for id in 0..<Int64(count) { try Self.create(id, "u\(id)", in: transaction) }
        }
        var devices = try (0..<count).map { try Self.connect(file, ["Task": "owner == \"u\($0)\""]) }
        _ = file.takeClientsToNotify()
        func evaluations(_ body: (WriteTransaction) throws -> Void) throws -> Int {
            let before = file.evaluationCount
            _ = try file.write(at: 2, body)
            return file.evaluationCount - before
        }
        func news() -> [Int] {
            let idents = file.takeClientsToNotify()
            return devices.indices.filter { idents.contains(devices[$0].client.ident) }
        }
        #expect(try evaluations { try $0.object("Task", key: 3)?.set("count", to: .int(1)) } == 1)
        #expect(news() == [3])
        #expect(try evaluations { try $0.object("Task", key: 3)?.set("owner", to: .string(Array("u7".utf8))) } == 2)
        #expect(news() == [3, 7])
        #expect(try evaluations { try $0.object("Task", key: 3)?.set("owner", to: .string(Array("nobody".utf8))) } == 1)
        #expect(news() == [7])
        #expect(try evaluations { try Self.create(Int64(count), "nobody", in: $0) } == 0)
        #expect(news() == [])
        // The author of an upload knows what it means, and is told that it has come.
        let before = file.evaluationCount
        let owner = Payload.string(Array("u6".utf8))
        try devices[5].client.write(at: 3) { try $0.object("Task", key: 5)?.set("owner", to: owner) }
        try Self.upload(&devices[5], to: file)
        #expect(file.evaluationCount - before == 1)
        #expect(news() == [5, 6])
    }

    /// As in partition-based sync.
    @Test func anOldReleaseIsNotSentWhatItCannotRead() throws {
        let file = try Self.open(TestStore(.memory))
        _ = try file.write(at: 1) { transaction in
            try Self.addClass(transaction)
            try transaction.addColumn("any", .null, to: "Task")
            try Self.create(1, "ann", in: transaction)
        }
        var device = try Self.connect(file, ["Task": "TRUEPREDICATE"])
        let path = FieldPath(object: ObjectName(className: "Task", key: .int(1)), field: "any")
        try device.client.commit(ChangesetWriter([.update(path, .list)]).bytes, at: 2)
        try Self.upload(&device, to: file)
        let salted = try file.file.allocateIdents(for: [nil], at: 1)[0]
        var request = IdentRequest(file: salted)
        request.subscriptions = SubscriptionSet(version: 1, query: Array(#"{"Task":"TRUEPREDICATE"}"#.utf8))
        var session = try file.identify(request)
        let old = ClientCapabilities(readsCollectionsInMixed: false)
        #expect {
            while try file.download(for: &session, old) != nil {}
        } throws: { error in
            (error as? HistoryError)?.code == .clientTooOld
        }
    }

    /// What happens to a view alone takes a version, and the time does not go back.
    @Test func writesOfTheServerDoNotGoBackInTime() throws {
        let file = try Self.open(TestStore(.memory))
        _ = try file.write(at: 1_000) { try Self.addClass($0) }
        _ = try Self.connect(file, ["Task": "TRUEPREDICATE"])
        let written = try file.write(at: 7) { try Self.create(1, "ann", in: $0) }
        #expect(try file.file.log(after: written.version - 1).first?.timestamp == 1_000)
    }

    /// Nothing of that has to be undone.
    @Test func twoMayEraseAnObjectAtATime() throws {
        let file = try Self.open(TestStore(.memory))
        _ = try file.write(at: 1) { transaction in
            try Self.addClass(transaction)
            try Self.create(1, "ann", in: transaction)
        }
        var devices = try (0..<2).map { _ in try Self.connect(file, ["Task": "TRUEPREDICATE"]) }
        for index in devices.indices {
            try devices[index].client.write(at: 2) { transaction in
                if let task = try transaction.object("Task", key: 1) { try transaction.delete(task) }
            }
            try Self.upload(&devices[index], to: file)
        }
        for index in devices.indices {
            while let message = try file.download(for: &devices[index].session) {
                #expect(message.compensations.isEmpty)
                try devices[index].client.integrate(message.download)
            }
            #expect(try devices[index].client.state.read { try $0.objects("Task").count } == 0)
        }
    }

    /// Views that ask the same are asked once.
    @Test func equalViewsAreAskedOnce() throws {
        let file = try Self.open(TestStore(.memory))
        _ = try file.write(at: 1) { try Self.addClass($0) }
        var devices = try (0..<20).map { _ in try Self.connect(file, ["Task": "count < 5"]) }
        let before = file.evaluationCount
        _ = try file.write(at: 2) { try Self.create(1, "ann", in: $0) }
        #expect(file.evaluationCount - before == 1)
        for index in devices.indices {
            try Self.receive(&devices[index], from: file)
            #expect(try devices[index].client.state.read { try $0.objects("Task").count } == 1)
        }
    }

    /// Nobody asks for the bootstrap of set 0 again, whatever came after it.
    @Test func theFirstBootstrapIsSentUntilItHasArrived() throws {
        let synced = try SyncedFile(path: VirtualPath("flexible"), store: InMemoryStore())
        try synced.write(at: 1) { try $0.addClass("Dog", key: "_id", .int) }
        let file = try FlexibleFile(synced)
        let request = IdentRequest(
            file: try synced.allocateIdents(for: [nil], at: 1)[0], download: DownloadCursor(), latest: SaltedVersion(),
            subscriptions: SubscriptionSet.none)
        var lost = try file.identify(request)
        let set = SubscriptionSet(version: 1, query: Array(#"{"Dog":"TRUEPREDICATE"}"#.utf8))
        #expect(try file.query(set, in: &lost) == nil)
        while try file.download(for: &lost) != nil {}

        var session = try file.identify(request)
        let first = try #require(try file.download(for: &session))
        #expect(first.kind == .bootstrap(0, isLast: true))
        let second = try #require(try file.download(for: &session))
        #expect(second.kind == .steady)
        // Now the client asks for set 1 again, and gets it.
        #expect(try file.query(set, in: &session) == nil)
        let third = try #require(try file.download(for: &session))
        #expect(third.kind == .bootstrap(1, isLast: true))
    }

    /// More of them: `anabranch-lab fuzz flexible`; and `anabranch-lab check vectors`, with the scenarios that the
    /// reference has recorded.
    @Test(arguments: 0..<100 as Range<UInt64>)
    func whoSeesEverythingHasPartitionBasedSync(seed: UInt64) throws {
        try FullViewRun.run(seed: seed, steps: 60)
    }
}
