import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Flexible files of several nodes over one shared store (`Spec/Nodes.md`, section 8). `anabranch-lab simulate --nodes
/// 3` runs whole worlds of them.
@Suite struct FlexibleNodesTests {
    private typealias Device = (client: MemoryClient, session: ViewSession)

    /// - Parameter number: from 1 on.
    private static func node(_ number: UInt64, in store: SharedStores) throws -> FlexibleFile {
        try FlexibleFile(SyncedFile.open("app", in: store[number - 1], seed: 100 + number, keepsState: true))
    }

    /// Two nodes, and the tasks 1 of ann, and 2 of bob.
    private static func nodes(_ kind: SharedStores.Kind) throws -> (FlexibleFile, FlexibleFile) {
        let store = try SharedStores(kind), first = try node(1, in: store), second = try node(2, in: store)
        try first.write(at: 1) { transaction in
            try transaction.addClass("Task", key: "_id", .int)
            try transaction.addColumn("owner", .string, to: "Task")
            try transaction.addColumn("count", .int, to: "Task")
            try create(1, "ann", in: transaction)
            try create(2, "bob", in: transaction)
        }
        return (first, second)
    }

    private static func create(_ id: Int64, _ owner: String, in transaction: WriteTransaction) throws {
        try transaction.create("Task", key: .int(id), ["owner": .string(Array(owner.utf8)), "count": .int(0)])
    }

    private static func set(_ field: String, of id: Int64, to value: Payload, at node: FlexibleFile) throws {
        try node.write(at: 2) { try $0.object("Task", key: .int(id))?.set(field, to: value) }
    }

    /// A new client at a node, with what it asks for.
    private static func device(at node: FlexibleFile, _ query: String) throws -> Device {
        let salted = try node.file.allocateIdents(for: [nil], at: 1)[0]
        var request = IdentRequest(file: salted)
        request.subscriptions = SubscriptionSet.none
        var device: Device = (MemoryClient(salted), try node.identify(request))
        try receive(&device, from: node)
        let set = SubscriptionSet(version: 1, query: Array(#"{"Task":"\#(query)"}"#.utf8))
        #expect(try node.query(set, in: &device.session) == nil)
        try receive(&device, from: node)
        return device
    }

    private static func receive(_ device: inout Device, from node: FlexibleFile) throws {
        while let message = try node.download(for: &device.session) { try device.client.integrate(message.download) }
    }

    private static func come(_ device: inout Device, to node: FlexibleFile, _ query: String) throws {
        var request = device.client.identRequest
        request.subscriptions = SubscriptionSet(version: 1, query: Array(#"{"Task":"\#(query)"}"#.utf8))
        device.client.startSession()
        device.session = try node.identify(request)
        try receive(&device, from: node)
    }

    private static func upload(_ device: inout Device, to node: FlexibleFile) throws {
        while let upload = device.client.nextUpload(), let rest = try device.session.progress.accept(upload) {
            try node.integrate(rest, from: device.client.ident, at: 1)
        }
    }

    private static func tasks(of device: Device) throws -> [PrimaryKey] {
        try device.client.state.read { try $0.objects("Task").compactMap(\.key).sorted() }
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func eachNodeEvaluatesTheViewsOfItsOwnClients(_ kind: SharedStores.Kind) throws {
        let (first, second) = try Self.nodes(kind)
        var ann = try Self.device(at: first, "owner == 'ann'"), bob = try Self.device(at: second, "owner == 'bob'")
        try first.follow()
        _ = (first.takeClientsToNotify(), second.takeClientsToNotify())
        let before = (first.evaluationCount, second.evaluationCount)
        try Self.set("count", of: 2, to: .int(7), at: first)
        try second.follow()
        #expect(first.evaluationCount == before.0 && second.evaluationCount == before.1 + 1)
        #expect(first.takeClientsToNotify() == [] && second.takeClientsToNotify() == [bob.client.ident])
        // An object leaves one view and enters the other.
        try Self.set("owner", of: 2, to: .string(Array("ann".utf8)), at: second)
        try first.follow()
        #expect(first.evaluationCount == before.0 + 1 && second.evaluationCount == before.1 + 2)
        try Self.receive(&ann, from: first)
        try Self.receive(&bob, from: second)
        #expect(try Self.tasks(of: ann) == [.int(1), .int(2)] && Self.tasks(of: bob) == [])
    }

    @Test func twoNodesShareAThousandViews() throws {
        let (first, second) = try Self.nodes(.memory), count: Int64 = 1_000
        try first.write(at: 1) { for id in 3..<3 + count { try Self.create(id, "u\(id)", in: $0) } }
        for id in 3..<3 + count { _ = try Self.device(at: id % 2 == 0 ? first : second, "owner == 'u\(id)'") }
        for node in [first, second] { try node.follow() }
        let before = (first.evaluationCount, second.evaluationCount)
        for id in 3..<3 + count {
            try Self.set("count", of: id, to: .int(1), at: id % 4 < 2 ? first : second)
            for node in [first, second] { try node.follow() }
        }
        #expect(first.evaluationCount - before.0 == 500 && second.evaluationCount - before.1 == 500)
    }

    /// What a field was before is in the log from the time on at which somebody asks for it, whoever writes.
    @Test(arguments: SharedStores.Kind.allCases)
    func aFieldThatSomebodyAsksForIsKnownToAll(_ kind: SharedStores.Kind) throws {
        let (first, second) = try Self.nodes(kind)
        try Self.set("count", of: 1, to: .int(1), at: second)
        let bounds = first.file.head.bounds
        var device = try Self.device(at: first, "count > 0")
        #expect(first.file.head.bounds == bounds + 1)
        #expect(try Self.tasks(of: device) == [.int(1)])
        // The second node does not know of the query.
        try Self.set("count", of: 1, to: .int(0), at: second)
        try first.follow()
        try Self.receive(&device, from: first)
        #expect(try Self.tasks(of: device) == [])
        #expect(second.file.head.bounds == bounds + 1)
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func anUploadIsMergedAgainOnWhatTheOtherHasWritten(_ kind: SharedStores.Kind) throws {
        let (first, second) = try Self.nodes(kind)
        var ann = try Self.device(at: second, "owner == 'ann'")
        try ann.client.write(at: 3) { try $0.object("Task", key: 1)?.set("count", to: .int(3)) }
        try Self.set("owner", of: 1, to: .string(Array("bob".utf8)), at: first)
        // The object has left the view by now: the change is undone, and the client told.
        try Self.upload(&ann, to: second)
        try Self.receive(&ann, from: second)
        #expect(try Self.tasks(of: ann) == [])
        try first.follow()
        let count = try first.currentState().read { try $0.object("Task", key: 1)?.value("count") }
        #expect(count == .int(0))
    }

    /// The step of a node is over after the first of two changesets, and the client brings the second one elsewhere:
    /// the entry that both meet has the form there that it has after the first.
    @Test(arguments: SharedStores.Kind.allCases)
    func whatOneNodeHasNotIntegratedAnotherOneMerges(_ kind: SharedStores.Kind) throws {
        let (first, second) = try Self.nodes(kind)
        try first.write(at: 1) { try $0.addColumn("list", .int, collection: .list, to: "Task") }
        var ann = try Self.device(at: second, "owner == 'ann'")
        let ident = ann.client.ident
        for number in 3...4 as ClosedRange<Int64> {
            try ann.client.write(at: 3) { try $0.object("Task", key: 1)?.list("list").append(.int(number)) }
        }
        try first.write(at: 2) { try $0.object("Task", key: 1)?.list("list").append(.int(2)) }
        try second.follow()
        second.quota = ViewQuota(isUsedUp: { _ in false }, charge: { _, _ in }, step: { .smallest })
        while let upload = ann.client.nextUpload(), let rest = try ann.session.progress.accept(upload) {
            second.enqueue(rest, from: ident, at: 1)
        }
        let version = second.version
        while second.version == version {
            _ = try second.integrateNew(until: .smallest)
            if second.version == version { _ = try second.integrateLong(until: .smallest) }
        }
        #expect(second.version == version + 1 && second.hasUploads(of: ident))
        try Self.come(&ann, to: first, "owner == 'ann'")
        try Self.upload(&ann, to: first)
        try Self.receive(&ann, from: first)
        let states = [ann.client.state, try first.currentState()]
        let lists = try states.map { try $0.read { try $0.object("Task", key: 1)?.list("list").values } }
        #expect(lists[0] == lists[1] && lists[0]?.count == 3)
    }

    /// Memory does not grow with clients that have left: those that come back have a new session.
    @Test(arguments: SharedStores.Kind.allCases)
    func sessionsOfClientsThatHaveLeftAreForgotten(_ kind: SharedStores.Kind) throws {
        let (first, _) = try Self.nodes(kind)
        var ann = try Self.device(at: first, "owner == 'ann'"), bob = try Self.device(at: first, "owner == 'bob'")
        first.leave(ann.client.ident)
        first.file.forgetSessions(butOf: [bob.client.ident])
        #expect(Array(first.file.ownSessions.keys) == [bob.client.ident])
        try Self.come(&ann, to: first, "owner == 'ann'")
        try ann.client.write(at: 3) { try $0.object("Task", key: 1)?.set("count", to: .int(3)) }
        try bob.client.write(at: 3) { try $0.object("Task", key: 2)?.set("count", to: .int(3)) }
        try Self.upload(&ann, to: first)
        try Self.upload(&bob, to: first)
        #expect(first.file.takeSuperseded().isEmpty)
        let counts = try first.currentState().read { try $0.objects("Task").map { try $0.value("count") } }
        #expect(counts == [.int(3), .int(3)])
    }

    private static func mark(_ number: Int64, in transaction: WriteTransaction) throws {
        try transaction.object("Task", key: 1)?.list("marks").insert(.int(number), at: 0)
    }

    private static func marks(in state: ObjectGraph) throws -> [Payload]? {
        try state.read { try $0.object("Task", key: 1)?.list("marks").values }
    }

    /// Another node writes whenever a part of an upload is integrated: what is left is merged again with the entries of
    /// the view as they are stored, which have met that part alone.
    @Test(arguments: SharedStores.Kind.allCases)
    func theRestOfAnUploadIsMergedAgainWithWhatAPartOfItHasMet(_ kind: SharedStores.Kind) throws {
        let (first, second) = try Self.nodes(kind)
        try first.write(at: 1) { try $0.addColumn("marks", .int, collection: .list, to: "Task") }
        var ann = try Self.device(at: second, "owner == 'ann'")
        let ident = ann.client.ident
        for number in 1...2 as ClosedRange<Int64> { try first.write(at: 2) { try Self.mark(number, in: $0) } }
        try second.follow()
        for number in 3...5 as ClosedRange<Int64> { try ann.client.write(at: 3) { try Self.mark(number, in: $0) } }
        second.quota = ViewQuota(isUsedUp: { _ in false }, charge: { _, _ in }, step: { .smallest })
        while let upload = ann.client.nextUpload(), let rest = try ann.session.progress.accept(upload) {
            second.enqueue(rest, from: ident, at: 1)
        }
        var integrated = try second.file.clientFile(ident)?.uploadCursor.clientVersion
        for number in 6...8 as ClosedRange<Int64> {
            let before = integrated
            while integrated == before {
                let outcomes =
                    second.hasNewUploads
                    ? try second.integrateNew(until: .smallest)
                    : try second.integrateLong(until: .smallest).map { [$0] } ?? []
                try #require(outcomes.allSatisfy { $0.refusal == nil })
                integrated = try second.file.clientFile(ident)?.uploadCursor.clientVersion
            }
            try first.write(at: 4) { try Self.mark(number, in: $0) }
        }
        #expect(!second.hasUploads(of: ident))
        for node in [first, second] { try node.follow() }
        try Self.receive(&ann, from: second)
        let marks = try Self.marks(in: first.currentState())
        #expect(marks?.count == 8)
        #expect(try marks == Self.marks(in: ann.client.state))
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func aViewBelongsToTheNodeOfTheNewestSession(_ kind: SharedStores.Kind) throws {
        let (first, second) = try Self.nodes(kind)
        var device = try Self.device(at: first, "owner == 'ann'")
        let ident = device.client.ident, old = device.session
        try Self.come(&device, to: second, "owner == 'ann'")
        // The second task enters the view, which both nodes have to write.
        try Self.set("owner", of: 2, to: .string(Array("ann".utf8)), at: second)
        try first.follow()
        #expect(first.file.takeSuperseded() == [ident])
        try Self.receive(&device, from: second)
        #expect(try Self.tasks(of: device) == [.int(1), .int(2)])
        // It comes back, and the first node has nothing of its last stay.
        try Self.set("owner", of: 1, to: .string(Array("bob".utf8)), at: first)
        try Self.come(&device, to: first, "owner == 'ann'")
        #expect(try Self.tasks(of: device) == [.int(2)] && device.session.sentNumber > old.sentNumber)
        try Self.set("count", of: 2, to: .int(1), at: second)
        try first.follow()
        try Self.receive(&device, from: first)
        #expect(try device.client.state.read { try $0.object("Task", key: 2)?.value("count") } == .int(1))
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func aClientThatComesBackHasTheViewOfTheOtherNode(_ kind: SharedStores.Kind) throws {
        let (first, second) = try Self.nodes(kind)
        var device = try Self.device(at: first, "owner == 'ann'")
        let ident = device.client.ident, before = first.views[ident]?.log.lastNumber
        try Self.come(&device, to: second, "owner == 'ann'")
        try Self.set("owner", of: 2, to: .string(Array("ann".utf8)), at: second)
        try Self.receive(&device, from: second)
        let number = second.views[ident]?.log.lastNumber
        #expect(number != before)
        // The first node has not heard of that.
        try Self.come(&device, to: first, "owner == 'ann'")
        #expect(first.views[ident]?.log.lastNumber == number)
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func whatAClientAsksForElsewhereIsKnown(_ kind: SharedStores.Kind) throws {
        let (first, second) = try Self.nodes(kind)
        var device = try Self.device(at: first, "owner == 'ann'")
        let ident = device.client.ident
        first.leave(ident)
        try Self.come(&device, to: second, "owner == 'ann'")
        let set = SubscriptionSet(version: 2, query: Array(#"{"Task":"owner == 'bob'"}"#.utf8))
        #expect(try second.query(set, in: &device.session) == nil)
        #expect(try first.queries(of: ident)?["Task"] == "owner == 'bob'")
    }

    /// The index of a field that nobody has asked for is not finished when another node writes, and begins anew.
    @Test(arguments: SharedStores.Kind.allCases)
    func aSearchFindsAllWhateverOthersWrite(_ kind: SharedStores.Kind) throws {
        let (first, second) = try Self.nodes(kind)
        try first.write(at: 1) { for id in 3...12 as ClosedRange<Int64> { try Self.create(id, "cid", in: $0) } }
        var device = try Self.device(at: first, "owner == 'ann'")
        let set = SubscriptionSet(version: 2, query: Array(#"{"Task":"count == 0"}"#.utf8))
        #expect(try first.beginQuery(set, in: device.session, until: .none))
        for number in 1...5 as ClosedRange<Int64> {
            #expect(try first.advanceSearch(in: &device.session, until: .smallest) == nil)
            try Self.set("count", of: 12, to: .int(number), at: second)
            try first.follow()
        }
        while first.isSearching(for: device.session.ident) {
            _ = try first.advanceSearch(in: &device.session, until: .smallest)
        }
        try Self.receive(&device, from: first)
        #expect(try Self.tasks(of: device) == (1...11 as ClosedRange<Int64>).map { PrimaryKey.int($0) })
    }

    /// A store that was copied from an older one has views, and says nothing of their fields until one changes.
    @Test(arguments: SharedStores.Kind.allCases)
    func fieldsThatAreNotStoredYetStayKnown(_ kind: SharedStores.Kind) throws {
        let (first, second) = try Self.nodes(kind), name = Array("Task".utf8)
        let field = ViewField(className: name, name: Array("count".utf8), since: 1)
        (first.unstoredFields, first.fields) = ([field], FieldNames(stored: [field]))
        _ = try Self.device(at: second, "owner == 'ann'")
        try first.follow()
        #expect(first.fields.byClass[name] == [Array("count".utf8), Array("owner".utf8)])
    }

    /// Its view is gone, and the node where it is connected does not make another one.
    @Test(arguments: SharedStores.Kind.allCases)
    func aViewThatHasExpiredElsewhereIsNotWritten(_ kind: SharedStores.Kind) throws {
        let (first, second) = try Self.nodes(kind)
        let device = try Self.device(at: first, "owner == 'ann'"), ident = device.client.ident
        #expect(try second.expire(ident))
        try Self.set("owner", of: 2, to: .string(Array("ann".utf8)), at: first)
        #expect(first.file.takeSuperseded() == [ident])
        #expect(try second.store.view(of: second.file.id, ident) == nil)
        #expect(throws: HistoryError(.clientFileExpired, "")) { try first.identify(device.client.identRequest) }
    }
}
