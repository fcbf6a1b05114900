import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Several nodes over one shared store (`Spec/Nodes.md`). `anabranch-lab simulate --nodes 3` runs whole worlds of them.
@Suite struct NodesTests {
    /// - Parameter number: from 1 on.
    private static func node(
        _ number: UInt64, in store: SharedStores, _ path: String = "/a", tailBytesMax: Int = 0
    ) throws -> SyncedFile {
        try SyncedFile.open(
            path, in: store[number - 1], seed: 100 + number, keepsState: true, tailBytesMax: tailBytesMax)
    }

    private typealias Client = RoamingClient

    private static func check(_ nodes: [SyncedFile], _ clients: [Client], _ seed: String) throws {
        for node in nodes { try node.follow() }
        let log = try nodes[0].log()
        #expect(log.map(\.version.rawValue) == Array(1...UInt64(log.count)), "\(seed)")
        for client in clients {
            let own = log.filter { $0.origin == client.file.ident }.map(\.clientVersion)
            #expect(own == (1...client.count.rawValue).map { ClientVersion(rawValue: $0) }, "\(seed)")
        }
        for node in nodes {
            #expect(try node.log() == log, "\(seed)")
            var replayed = ObjectGraph()
            try replayed.replay(log)
            #expect(try StateDigest(of: node.withState { $0 }) == StateDigest(of: replayed), "\(seed)")
        }
    }

    // MARK: The store

    @Test(arguments: SharedStores.Kind.allCases)
    func openingTakesAFileFromNobody(_ kind: SharedStores.Kind) throws {
        let store = try SharedStores(kind)
        let first = try Self.node(1, in: store), second = try Self.node(2, in: store)
        #expect(first.lease == second.lease && first.head.bounds == 1)
        let idents = [try first.allocateIdent(), try second.allocateIdent(), try first.allocateIdent()].map(\.ident)
        #expect(idents == [2, 3, 4])
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func aCommitDependsOnWhatItWasMadeOf(_ kind: SharedStores.Kind) throws {
        let store = try SharedStores(kind)
        let first = try Self.node(1, in: store), second = try Self.node(2, in: store)
        let head = first.head
        var idents = Commit(file: first.id, lease: first.lease, head: head)
        idents.clientFiles = [ClientFile(ident: 2, salt: 1, lastSeen: 1, revision: 1)]
        #expect(idents.dependencies == .idents)
        try second.write(at: 1) { try $0.addClass("T") }
        // A new client file has nothing to do with the log.
        try store[0].commit([idents])
        #expect(try code { try store[0].commit([idents]) } == .conflict)
        idents.clientFiles = [ClientFile(ident: 2, salt: 1, lastSeen: 2, revision: 2)]
        #expect(idents.dependencies == [])
        try store[0].commit([idents])
        #expect(try code { try store[0].commit([idents]) } == .conflict)

        var deletion = Commit(file: first.id, lease: first.lease, head: head)
        deletion.deletesFile = true
        #expect(try deletion.dependencies == .idents && code { try store[0].commit([deletion]) } == .conflict)

        var write = Commit(file: first.id, lease: first.lease, head: head)
        write.idempotencyKey = IdempotencyKey(key: [1], version: 0)
        #expect(write.dependencies == [.log, .bounds])
        #expect(try code { try store[0].commit([write]) } == .conflict)
        write.head = second.head
        try store[0].commit([write])
        write.head.bounds += 1
        #expect(try code { try store[0].commit([write]) } == .conflict)
        write.head = second.head
        write.head.versionSalt = 77
        #expect(try code { try store[0].commit([write]) } == .conflict)
        write.lease.number += 1
        #expect(try code { try store[0].commit([write]) } == .leaseLost)
        var choice = Commit(file: first.id, lease: first.lease, head: head)
        choice.choosesLineage = true
        #expect(choice.dependencies == .bounds)
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func oneThatDoesNotFitStopsNoOther(_ kind: SharedStores.Kind) throws {
        let store = try SharedStores(kind)
        let b = try SyncedFile.open("/b", in: store[0]), stale = try Self.node(1, in: store)
        let a = try SyncedFile.open("/a", in: store[1], keepsState: true)
        try a.write(at: 1) { try $0.addClass("T") }
        var commits = [stale, b].map { Commit(file: $0.id, lease: $0.lease, head: $0.head) }
        commits[0].idempotencyKey = IdempotencyKey(key: [1], version: 0)
        commits[1].clientFiles = [ClientFile(ident: 2, salt: 1, lastSeen: 1, revision: 1)]
        let failures = store[0].commitByShard(commits)
        #expect(failures.keys.map { $0 } == [a.id] && failures[a.id]?.code == .conflict)
        #expect(failures[a.id]?.isStoreFailure == false && failures[a.id]?.isTransient == true)
        #expect(try store.catalog.file(VirtualPath("/b"))?.head.nextIdent == 3)
    }

    // MARK: Following

    @Test(arguments: SharedStores.Kind.allCases, [0, 1 << 20])
    func whatOneWritesTheOtherTakesIn(_ kind: SharedStores.Kind, tailBytesMax: Int) throws {
        let store = try SharedStores(kind)
        let first = try Self.node(1, in: store, tailBytesMax: tailBytesMax)
        let second = try Self.node(2, in: store, tailBytesMax: tailBytesMax)
        let reader = try Client(at: first), author = try Client(at: second)
        try reader.come(to: first)
        try author.come(to: second)
        for _ in 0..<3 { try author.upload(to: second) }
        _ = try second.integrate(at: 1000)
        #expect(second.version == 3 && first.version == 0)
        try first.follow()
        #expect(first.version == 3)
        let download = try first.downloads(for: reader.file.ident).download(after: DownloadCursor(), byteBudget: .max)
        #expect(download.changesets.count == 3 && download.progress.cursor.serverVersion == 3)
        try Self.check([first, second], [author], "")
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func aWriteIsMadeAgainOnWhatTheOtherHasWritten(_ kind: SharedStores.Kind) throws {
        let store = try SharedStores(kind)
        let first = try Self.node(1, in: store), second = try Self.node(2, in: store)
        try first.write(at: 1) { try $0.addClass("T", key: "_id", .int) }
        var calls = 0
        let made = try second.write(idempotencyKey: "k", at: 2) { tx in
            calls += 1
            try tx.create("T", key: .int(1))
        }
        #expect(made.version == 2 && calls == 1)
        // The other does not know of it.
        #expect(try first.write(idempotencyKey: "k", at: 3) { _ in calls += 1 }.isRepetition)
        #expect(try first.write(at: 4) { try $0.create("T", key: .int(2)) }.version == 3)
        try Self.check([first, second], [], "")
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func aFileThatIsGoneOrRestoredIsLost(_ kind: SharedStores.Kind) throws {
        let store = try SharedStores(kind)
        let first = try Self.node(1, in: store), second = try Self.node(2, in: store)
        try first.write(at: 1) { try $0.addClass("T") }
        try second.follow()
        try store.restore()
        #expect(try code { try second.follow() } == .leaseLost)
        #expect(try code { try second.write(at: 1) { try $0.addClass("U") } } == .leaseLost)
        let third = try Self.node(3, in: store)
        #expect(try third.write(at: 1) { try $0.addClass("U") }.version == 2)
        let other = try Self.node(2, in: store)
        try third.commit(third.deletion())
        #expect(try store[0].contains(VirtualPath("/a")) == false)
        let fourth = try Self.node(4, in: store)
        #expect(fourth.version == 0 && fourth.id != third.id)
        #expect(try code { try other.follow() } == .leaseLost)
    }

    // MARK: Sessions

    @Test(arguments: SharedStores.Kind.allCases)
    func aClientThatMovesLeavesNothingBehind(_ kind: SharedStores.Kind) throws {
        let store = try SharedStores(kind)
        let first = try Self.node(1, in: store), second = try Self.node(2, in: store)
        let client = try Client(at: first)
        try client.come(to: first)
        try client.upload(to: first)
        // What the first node has not integrated the client brings to the second one.
        try client.come(to: second)
        try client.upload(to: second, again: true)
        let report = try first.integrate(at: 1000)
        #expect(report.outcomes.map(\.refusal?.code) == [.superseded] && !first.hasQueuedUploads && first.version == 0)
        #expect(try second.integrate(at: 1000).outcomes.map(\.newVersions) == [1])
        try client.upload(to: second)
        try client.come(to: first)
        try client.upload(to: first, again: true)
        _ = try first.integrate(at: 1000)
        #expect(try second.integrate(at: 1000).outcomes.map(\.refusal?.code) == [.superseded])
        try Self.check([first, second], [client], "")
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func aClientThatComesBackFindsNothingOfItsLastStay(_ kind: SharedStores.Kind) throws {
        let store = try SharedStores(kind)
        let first = try Self.node(1, in: store), second = try Self.node(2, in: store)
        let client = try Client(at: first)
        try client.come(to: first)
        try client.upload(to: first)
        try client.come(to: second)
        try client.come(to: first)
        #expect(!first.hasQueuedUploads && first.takeDropped() == [client.file.ident: 1])
        try client.come(to: first)
        #expect(first.takeDropped() == [:])
        try client.upload(to: first, again: true)
        // It stays where it is: what waits counts.
        try client.come(to: first)
        #expect(first.hasQueuedUploads)
        _ = try first.integrate(at: 1000)
        try Self.check([first, second], [client], "")
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func expiryElsewhereIsFoundOut(_ kind: SharedStores.Kind) throws {
        let store = try SharedStores(kind)
        let first = try Self.node(1, in: store, tailBytesMax: 1 << 20), second = try Self.node(2, in: store)
        let client = try Client(at: first)
        try client.come(to: first)
        #expect(try second.expire(client.file.ident))
        try client.upload(to: first)
        #expect(try first.integrate(at: 1000).outcomes.map(\.refusal?.code) == [.clientFileExpired])
    }

    // MARK: Expiry

    private static let day: UInt64 = 86_400

    /// Two nodes, and two clients with sessions at the second one, which were seen on day 100 and keep the whole log.
    private struct Kept {
        let first, second: SyncedFile
        let clients: [Client]

        init(_ kind: SharedStores.Kind) throws {
            let store = try SharedStores(kind)
            first = try NodesTests.node(1, in: store)
            second = try NodesTests.node(2, in: store)
            clients = [try Client(at: first), try Client(at: first)]
            for client in clients {
                try client.come(to: second)
                try client.upload(to: second)
            }
            _ = try second.integrate(at: 100 * day)
            try lookAtSessions([], on: 100)
        }

        /// The second node looks at clients that are still there.
        func lookAtSessions(_ idents: Set<ClientFileID>, on days: UInt64) throws {
            try second.markSeen(idents)
            for result in SyncedFile.updateClientFiles(of: [(second, [])], at: days * day) { _ = try result.get() }
        }

        /// - Returns: the clients that expire in a round of the first node.
        func round(on days: UInt64) throws -> [ClientFileID] {
            try first.follow()
            let round = MaintenanceRound(
                HistoryPolicy(), at: days * day, expires: true, connected: [], upTo: first.version)
            return try first.run(round).expired.map(\.ident)
        }
    }

    /// The clock of the node that maintains the file is 400 days ahead.
    @Test(arguments: SharedStores.Kind.allCases)
    func whoIsConnectedAnywhereDoesNotExpire(_ kind: SharedStores.Kind) throws {
        let kept = try Kept(kind), idents = kept.clients.map(\.file.ident)
        #expect(try kept.round(on: 500) == [])
        #expect(try idents.map { try kept.first.clientFile($0)?.foundAway } == [500 * Self.day, 500 * Self.day])
        var expired: [UInt64: [ClientFileID]] = [:]
        for later in 1...10 as ClosedRange<UInt64> {
            try kept.lookAtSessions([idents[0]], on: 100 + later)
            expired[500 + later] = try kept.round(on: 500 + later)
        }
        #expect(expired.filter { !$0.value.isEmpty } == [503: [idents[1]]])
        #expect(try kept.first.clientFile(idents[0])?.lastSeen == 110 * Self.day)
    }

    @Test(arguments: SharedStores.Kind.allCases)
    func whoComesBackWasNotFoundAway(_ kind: SharedStores.Kind) throws {
        let kept = try Kept(kind), client = kept.clients[0]
        #expect(try kept.round(on: 500) == [])
        try client.come(to: kept.second)
        #expect(try kept.first.clientFile(client.file.ident)?.foundAway == 0)
        #expect(try kept.round(on: 503) == [kept.clients[1].file.ident])
    }

    // MARK: Interleavings

    /// A step of one node: what a turn does before it may have to wait.
    private enum Step: CaseIterable { case come, upload, merge, commit, write }

    /// All orders in which two nodes can take their steps, each of which goes on from what the node knows.
    @Test(arguments: SharedStores.Kind.allCases, [0, 1 << 20])
    func twoNodesDoTheSameInEveryOrder(_ kind: SharedStores.Kind, tailBytesMax: Int) throws {
        let steps = Step.allCases.count, store = try SharedStores(kind)
        for order in 0..<(1 << (2 * steps)) where order.nonzeroBitCount == steps {
            try run((0..<2 * steps).map { order >> $0 & 1 }, in: store, tailBytesMax, "order \(order)")
        }
    }

    /// - Parameter order: the node of each step.
    private func run(_ order: [Int], in store: SharedStores, _ tailBytesMax: Int, _ name: String) throws {
        let nodes = try (1...2).map { try Self.node($0, in: store, "/\(name)", tailBytesMax: tailBytesMax) }
        let clients = try nodes.map { try Client(at: $0) }
        var rest = [Step.allCases[...], Step.allCases[...]]
        var merged: [SyncedFile.MergedUploads?] = [nil, nil]
        for number in order {
            let node = nodes[number], client = clients[number]
            switch rest[number].removeFirst() {
            case .come: try client.come(to: node)
            case .upload: try client.upload(to: node)
            case .merge:
                var limit = StepLimit.none
                do {
                    _ = try node.advanceIntegration(at: 1000, until: &limit)
                    merged[number] = node.takeMerged()
                } catch {
                    #expect(error.code == .conflict, "\(name)")
                }
            case .commit:
                guard let taken = merged[number] else { continue }
                let commit = node.completed(taken.commit), failure = node.store.commitByShard([commit])[node.id]
                #expect(failure == nil || failure?.code == .conflict, "\(name)")
                node.finish(commit, failure)
                _ = node.finish(taken, failure)
            case .write:
                // A merge that was dropped is made again.
                try node.write(at: 1000) { tx in
                    if !tx.classNames.contains("S") { try tx.addClass("S", key: "_id", .int) }
                    try tx.create("S", key: .int(Int64(number)))
                }
            }
        }
        for node in nodes { _ = try node.integrate(at: 1000) }
        try Self.check(nodes, clients, name)
        let objects = try nodes[0].withState { state in try state.read { try $0.objects("S").count } }
        #expect(objects == 2, "\(name)")
    }

    /// Nodes, clients that move, maintenance and restarts in random order.
    @Test(arguments: 0..<40 as Range<UInt64>) func nodesAgreeWhateverHappens(seed: UInt64) throws {
        try runAtRandom(.memory, seed, "NodesTests.nodesAgreeWhateverHappens(seed: \(seed))")
    }

    @Test(arguments: 40..<48 as Range<UInt64>) func nodesOverPostgresAgreeWhateverHappens(seed: UInt64) throws {
        try runAtRandom(.postgres, seed, "NodesTests.nodesOverPostgresAgreeWhateverHappens(seed: \(seed))")
    }

    private func runAtRandom(_ kind: SharedStores.Kind, _ seed: UInt64, _ repetition: String) throws {
        var random = SeededRandom(seed: seed)
        let store = try SharedStores(kind)
        var policy = HistoryPolicy()
        (policy.sealEntries, policy.generationBytes) = (3, 100)
        var nodes = try (1...3).map { try Self.node($0, in: store, tailBytesMax: random.pick([0, 300, 1 << 20])) }
        var clients: [(client: Client, node: Int, isWaiting: Bool)] = []
        for _ in 0..<200 {
            let number = random.below(3), index = clients.isEmpty ? 0 : random.below(clients.count)
            switch random.below(10) {
            case 0 where clients.count < 5:
                clients.append((try Client(at: nodes[number]), number, false))
                try clients[clients.count - 1].client.come(to: nodes[number])
            case 1 where !clients.isEmpty:
                try clients[index].client.come(to: nodes[number])
                let hasMoved = clients[index].node != number
                clients[index].node = number
                if hasMoved, clients[index].isWaiting {
                    try clients[index].client.upload(to: nodes[number], again: true)
                }
            case 2...5 where !clients.isEmpty && !clients[index].isWaiting:
                try clients[index].client.upload(to: nodes[clients[index].node])
                clients[index].isWaiting = true
            case 6:
                _ = try nodes[number].integrate(at: 1000)
                for other in clients.indices where clients[other].node == number { clients[other].isWaiting = false }
            case 7: try nodes[number].maintain(at: 1000, policy)
            case 8: try nodes[number].follow()
            default:
                guard !clients.contains(where: { $0.node == number }) else { continue }
                // Its new process has other random numbers.
                nodes[number] = try Self.node(UInt64(number + 1 + 3 * random.below(1_000)), in: store)
            }
        }
        for node in nodes { _ = try node.integrate(at: 1000) }
        for node in nodes { try node.follow() }
        let log = try nodes[0].log()
        for node in nodes {
            #expect(try node.log() == log, "\(repetition)")
            #expect(
                try StateDigest(of: node.withState { $0 }) == StateDigest(of: nodes[0].withState { $0 }),
                "\(repetition)")
        }
        for (client, _, _) in clients where client.count > 0 {
            #expect(
                try nodes[0].clientFile(client.file.ident)?.uploadCursor.clientVersion == client.count, "\(repetition)")
            let count = try nodes[0].withState { state in
                try state.read { tx in
                    try (2...max(2, client.count.rawValue)).count { number in
                        try tx.object("T", key: .int(Int64(client.file.ident.rawValue * 1_000 + number))) != nil
                    }
                }
            }
            #expect(count == Int(client.count.rawValue) - 1, "\(repetition)")
        }
    }
}
