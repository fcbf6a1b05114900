import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Bootstraps that come in parts, and what of a view is in memory (`Spec/FlexibleSync.md`, section 3.4).
@Suite struct FlexiblePartsTests {
    private static let none = SubscriptionSet(version: 2, query: Array("{}".utf8))
    private static let all = SubscriptionSet(version: 3, query: Array(#"{"Note":"TRUEPREDICATE"}"#.utf8))

    /// A client that has nothing, and asks for 10 objects of 100 bytes.
    private func fixture(_ kind: StoreKind) throws -> FlexibleFixture {
        var fixture = try FlexibleFixture(kind)
        for key in 0..<10 { try fixture.create(Int64(key), bytes: 100) }
        #expect(try fixture.file.query(Self.none, in: &fixture.session) == nil)
        try fixture.integrate()
        #expect(try fixture.objectCount() == 0)
        try fixture.upload()
        fixture.file.partBytes = 200
        #expect(try fixture.file.query(Self.all, in: &fixture.session) == nil)
        return fixture
    }

    @Test(arguments: StoreKind.allCases) func whatIsLongComesInParts(_ kind: StoreKind) throws {
        var fixture = try fixture(kind)
        var made: [ViewDownload] = []
        while let message = try fixture.file.download(for: &fixture.session) { made.append(message) }
        #expect(made.count == 5)
        #expect(made.dropLast().allSatisfy { $0.kind == .bootstrap(3, isLast: false) })
        #expect(made.last?.kind == .bootstrap(3, isLast: true) && made.last?.estimate == 1)
        let estimates = made.map(\.estimate)
        #expect(estimates.first.map { $0 > 0 } == true && zip(estimates, estimates.dropFirst()).allSatisfy(<))
        let versions = made.flatMap(\.download.changesets).map(\.cursor.serverVersion)
        #expect(Set(versions).count == 5 && versions == versions.sorted() && versions.last == fixture.synced.version)
        for message in made { try fixture.client.integrate(message.download) }
        #expect(try fixture.objectCount() == 10)
    }

    @Test(arguments: StoreKind.allCases) func afterALostConnectionTheClientBeginsItsSessionAnew(
        _ kind: StoreKind
    ) throws {
        var fixture = try fixture(kind)
        _ = try fixture.file.download(for: &fixture.session)
        var request = fixture.client.identRequest
        request.subscriptions = Self.none
        for isRestarted in [false, true] {
            if isRestarted { try fixture.restart() }
            #expect { try fixture.file.identify(request) } throws: {
                ($0 as? HistoryError)?.code == .interruptedBootstrap
            }
        }
        fixture.client.startSession()
        fixture.session = try fixture.file.identify(request, hasRestarted: true)
        // It comes as steady state, whose parts the client confirms one by one.
        let first = try #require(try fixture.file.download(for: &fixture.session, byteBudget: 0))
        #expect(first.kind == .steady && first.download.changesets.count == 1)
        try fixture.client.integrate(first.download)
        try fixture.upload()
        request = fixture.client.identRequest
        request.subscriptions = Self.none
        fixture.client.startSession()
        fixture.session = try fixture.file.identify(request, hasRestarted: true)
        try fixture.integrate()
        try fixture.upload()
        #expect(try fixture.objectCount() == 10)
        // Nothing is left of it, so the client can come as it likes, and its set is answered with one message.
        request = fixture.client.identRequest
        request.subscriptions = Self.none
        fixture.client.startSession()
        fixture.session = try fixture.file.identify(request)
        #expect(try fixture.file.query(Self.all, in: &fixture.session) == nil)
        let answer = try #require(try fixture.file.download(for: &fixture.session))
        #expect(answer.kind == .bootstrap(3, isLast: true) && answer.download.changesets.map(\.changeset) == [[]])
    }

    /// What a client writes while it has not got the bootstrap is merged with all of it, wherever that is: the object
    /// that is there already stays.
    @Test(arguments: StoreKind.allCases) func whatIsNotInMemoryIsReadAgain(_ kind: StoreKind) throws {
        var fixture = try fixture(kind)
        let ident = fixture.client.ident
        func loadedCount() throws -> Int {
            try #require(fixture.file.views[ident]).log.entries.filter { $0.contents != nil }.count
        }
        #expect(try loadedCount() == 5)
        fixture.file.leave(ident)
        #expect(try loadedCount() == 0)
        try fixture.client.write(at: 1_000) { try $0.create("Note", key: 3, ["text": .string([0x62])]) }
        fixture.client.startSession()
        var request = fixture.client.identRequest
        request.subscriptions = Self.none
        fixture.session = try fixture.file.identify(request, hasRestarted: true)
        try fixture.upload()
        try fixture.integrate()
        #expect(try fixture.objectCount() == 10)
        let text = try fixture.client.state.read { try $0.object("Note", key: 3)?.value("text") }
        let stored = try fixture.synced.withState { try $0.read { try $0.object("Note", key: 3)?.value("text") } }
        #expect(text == stored && text == .string([UInt8](repeating: 0x61, count: 100)))
    }

    /// Otherwise a client that never confirms anything could fill the disk.
    @Test(arguments: StoreKind.allCases) func whoConfirmsNothingGetsNoFurtherBootstraps(_ kind: StoreKind) throws {
        var fixture = try fixture(kind)
        fixture.file.unconfirmedBytesMax = 1_000
        let next = SubscriptionSet(version: 4, query: Array("{}".utf8))
        #expect { try fixture.file.query(next, in: &fixture.session) } throws: {
            ($0 as? HistoryError)?.code == .backlogFull
        }
        try fixture.integrate()
        try fixture.upload()
        #expect(try fixture.file.query(next, in: &fixture.session) == nil)
        try fixture.integrate()
        #expect(try fixture.objectCount() == 0)
    }

    /// The view is not stored again when its client confirms.
    @Test(arguments: StoreKind.allCases) func whatIsConfirmedDoesNotCountWhenTheClientComesBack(
        _ kind: StoreKind
    ) throws {
        var fixture = try fixture(kind)
        try fixture.integrate()
        try fixture.upload()
        try fixture.restart()
        fixture.file.unconfirmedBytesMax = 0
        var request = fixture.client.identRequest
        request.subscriptions = Self.all
        fixture.client.startSession()
        fixture.session = try fixture.file.identify(request)
        #expect(fixture.file.views[fixture.client.ident]?.log.entries.isEmpty == true)
        let next = SubscriptionSet(version: 4, query: Array("{}".utf8))
        #expect(try fixture.file.query(next, in: &fixture.session) == nil)
        try fixture.integrate()
        #expect(try fixture.objectCount() == 0)
        try fixture.test.verify()
    }

    /// Views that catch up at the same time do so one after the other when they know too much together.
    @Test(arguments: StoreKind.allCases) func whatIsKnownOfViewsThatCatchUpHasABound(_ kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        try first.upload()
        var second = try first.joined()
        let file = first.file, idents = [first.client.ident, second.client.ident]
        for ident in idents { file.leave(ident) }
        for key in 0..<10 as Range<Int64> { try first.create(key) }
        try first.identify()
        try second.identify()
        // Both take a step at a time.
        file.looksMax = 0
        file.instant = { [instant = ContinuousClock.now] in instant }
        for _ in 0..<5 {
            #expect(try file.download(for: &first.session, until: .smallest) == nil)
            #expect(try file.download(for: &second.session, until: .smallest) == nil)
            #expect(file.catchUps[idents[1]]?.looks.count == 0)
        }
        #expect(file.catchUps[idents[0]]?.looks.count == 5)
        for _ in 0..<2 {
            while file.isCatchingUp(first.client.ident) {
                if let message = try file.download(for: &first.session, until: .smallest) {
                    try first.client.integrate(message.download)
                }
            }
            swap(&first, &second)
        }
        for _ in 0..<2 {
            try first.integrate()
            #expect(try first.objectCount() == 10)
            swap(&first, &second)
        }
        try first.test.verify()
    }

    /// A long object enters the views of many queries, and is made for each of them.
    @Test(arguments: StoreKind.allCases) func whatACommitMakesForViewsHasABound(_ kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        let file = fixture.file
        file.madeBytesMax = 1_000
        try fixture.create(1, bytes: 2_000)
        var others = try (0..<3).map { number in
            var other = fixture
            (other.client, other.session) = try FlexibleFixture.join(fixture.synced, file)
            let query = #"{"Note":"text BEGINSWITH 'b' AND _id > -\#(number + 1)"}"#
            #expect(try file.query(SubscriptionSet(version: 1, query: Array(query.utf8)), in: &other.session) == nil)
            try other.integrate()
            try other.upload()
            return other
        }
        try file.write(at: 100) { transaction in
            let text = Payload.string([UInt8](repeating: 0x62, count: 2_000))
            try transaction.object("Note", key: .int(1))?.set("text", to: text)
        }
        #expect(others.count { file.isUpToDate($0.client.ident) } == 1)
        for index in others.indices {
            try others[index].integrate()
            #expect(try others[index].objectCount() == 1)
        }
        try fixture.test.verify()
    }

    /// Searches go on one after the other when they have found too much together.
    @Test(arguments: StoreKind.allCases) func whatSearchesFindHasABound(_ kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        let file = fixture.file
        for key in 0..<10 as Range<Int64> { try fixture.create(key) }
        file.sharedSearches.objectsMax = 0
        var sessions = try (0..<3).map { _ in
            try file.identify(MemoryClient(try fixture.synced.allocateIdents(for: [nil], at: 1)[0]).identRequest)
        }
        for (number, session) in sessions.enumerated() {
            let set = SubscriptionSet(version: 1, query: Array(#"{"Note":"_id > -\#(number + 1)"}"#.utf8))
            #expect(try file.beginQuery(set, in: session, until: .none))
        }
        var foundMax = 0, roundCount = 0
        while sessions.contains(where: { file.isSearching(for: $0.ident) }) {
            roundCount += 1
            try #require(roundCount < 1_000)
            for index in sessions.indices where file.isSearching(for: sessions[index].ident) {
                _ = try file.advanceSearch(in: &sessions[index], until: .smallest)
                foundMax = max(foundMax, file.sharedSearches.objectCount)
            }
        }
        #expect((10...12).contains(foundMax))
        for index in sessions.indices { #expect(try file.queries(of: sessions[index].ident)?.count == 1) }
        try fixture.test.verify()
    }

    /// Each change of an object would look at all of them.
    @Test(arguments: StoreKind.allCases) func tooManyPropertiesAreNotIndexed(_ kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        let file = fixture.file, names = (0...ObjectIndex.propertiesMax).map { "c\($0)" }
        try file.write(at: 2) { transaction in
            for name in names { try transaction.addColumn(name, .int, to: "Note") }
        }
        func write(_ key: Int64, _ values: [String: Payload]) throws {
            try file.write(at: 10) { _ = try $0.create("Note", key: .int(key), values) }
        }
        func ask(_ version: UInt64, _ names: ArraySlice<String>, _ value: Int) throws -> Int {
            let predicate = names.map { "\($0) == \(value)" }.joined(separator: " OR ")
            let set = SubscriptionSet(
                version: QueryVersion(rawValue: version), query: Array(#"{"Note":"\#(predicate)"}"#.utf8))
            #expect(try file.query(set, in: &fixture.session) == nil)
            try fixture.integrate()
            return try fixture.objectCount()
        }
        try write(1, [names[0]: .int(7)])
        try write(2, [names[64]: .int(7)])
        try write(3, [:])
        #expect(try ask(2, names[..<1], 1) == 0)
        let bytes = file.objects.byteCount
        #expect(try ask(3, names[...], 7) == 2)
        #expect(file.objects.byteCount <= bytes)
        // Each commit asks the view itself.
        try write(4, [names[64]: .int(7)])
        try write(5, [:])
        try fixture.integrate()
        #expect(try fixture.objectCount() == 3)
        #expect(try ask(4, names[..<64], 8) == 0)
        #expect(try ask(5, names[..<64], 7) == 1)
        #expect(file.objects.byteCount > 0)
        #expect(try ask(6, names[...], 7) == 3)
        try fixture.upload()
        try fixture.test.verify()
    }

    /// However many clients of a user ask at the same time.
    @Test(arguments: StoreKind.allCases) func aSetCountsWhileItIsLookedFor(_ kind: StoreKind) throws {
        let fixture = try FlexibleFixture(kind), file = fixture.file
        var sessions = try (0..<2).map { _ in
            let client = MemoryClient(try fixture.synced.allocateIdents(for: ["ann"], at: 1)[0])
            return try file.identify(client.identRequest, user: "ann")
        }
        file.userSetBytesMax = 30
        let sets = ["one", "two"].map {
            SubscriptionSet(version: 1, query: Array(#"{"Note":"text == \"\#($0)\""}"#.utf8))
        }
        #expect(try file.beginQuery(sets[0], in: sessions[0], until: .none))
        #expect(try file.query(sets[1], in: &sessions[1])?.contains("30 bytes") == true)
        while file.isSearching(for: sessions[0].ident) { _ = try file.advanceSearch(in: &sessions[0], until: .none) }
        #expect(try file.query(sets[1], in: &sessions[1])?.contains("30 bytes") == true)
        file.leave(sessions[0].ident)
        #expect(try file.query(sets[1], in: &sessions[1]) == nil)
    }

    /// Equal sets count once, and those of clients that have left do not count.
    @Test(arguments: StoreKind.allCases) func whatTheClientsOfAUserAskForHasABound(_ kind: StoreKind) throws {
        let fixture = try FlexibleFixture(kind)
        func join(_ user: String) throws -> (client: MemoryClient, session: ViewSession) {
            let client = MemoryClient(try fixture.synced.allocateIdents(for: [user], at: 1)[0])
            return (client, try fixture.file.identify(client.identRequest, user: user))
        }
        func set(_ name: String) -> SubscriptionSet {
            SubscriptionSet(version: 1, query: Array(#"{"Note":"text == \"\#(name)\""}"#.utf8))
        }
        fixture.file.userSetBytesMax = 40
        var leaving: [MemoryClient] = []
        for (user, name) in [("ann", "one"), ("ann", "one"), ("ann", "two"), ("bob", "three")] {
            var (client, session) = try join(user)
            #expect(try fixture.file.query(set(name), in: &session) == nil)
            if name == "two" { leaving.append(client) }
        }
        var (client, session) = try join("ann")
        #expect(try fixture.file.query(set("three"), in: &session)?.contains("40 bytes") == true)
        #expect(try fixture.file.query(set("two"), in: &session) == nil)
        for client in leaving + [client] { fixture.file.leave(client.ident) }
        var other = try join("ann").session
        #expect(try fixture.file.query(set("three"), in: &other) == nil)
        // It may come back when there is room.
        #expect { try fixture.file.identify(client.identRequest, user: "ann") } throws: {
            ($0 as? HistoryError)?.code == .backlogFull
        }
        // Until then its view is one of those that can go.
        #expect(!fixture.file.connected.contains(client.ident))
        #expect(fixture.file.awayBytes[client.ident] != nil)
        fixture.file.leave(other.ident)
        _ = try fixture.file.identify(client.identRequest, user: "ann")
    }

    /// Its client has to come back, and then has missed nothing.
    @Test(arguments: StoreKind.allCases) func aViewThatNobodyPaysForIsLeftBehind(_ kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        let ident = fixture.client.ident
        var isUsedUp = false, charged: [ClientFileID] = []
        fixture.file.quota = ViewQuota(isUsedUp: { _ in isUsedUp }, charge: { ident, _ in charged.append(ident) })
        try fixture.create(1)
        #expect(charged == [ident] && fixture.file.takeOverQuota() == [])
        isUsedUp = true
        try fixture.create(2)
        try fixture.create(3)
        #expect(charged == [ident] && fixture.file.evaluationCount == 1)
        #expect(fixture.file.takeOverQuota() == [ident] && fixture.file.takeOverQuota() == [])
        fixture.file.leave(ident)
        isUsedUp = false
        try fixture.identify()
        try fixture.integrate()
        #expect(try fixture.objectCount() == 3)
    }

    @Test(arguments: StoreKind.allCases) func aLongLogOfAConnectedClientIsNotInMemory(_ kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        try fixture.upload()
        // What is as it is in the log is there alone; the view has another form of what it sees a part of.
        for key in 0..<10 {
            let text = Payload.string([UInt8](repeating: 0x61, count: 5_000))
            try fixture.file.write(at: ChangesetTime(rawValue: UInt64(100 + key))) { transaction in
                try transaction.create("Note", key: .int(Int64(key)), ["text": text])
                try transaction.create("Reading", key: .int(Int64(key)))
            }
        }
        let entries = try #require(fixture.file.views[fixture.client.ident]).log.entries
        #expect(entries.count == 10)
        let bytes = entries.reduce(0) { $0 + ($1.contents?.changeset.count ?? 0) }
        #expect(0 < bytes && bytes <= ViewLog.loadedBytesMax)
        try fixture.integrate()
        #expect(try fixture.objectCount() == 10)
        try fixture.upload()
        #expect(fixture.file.views[fixture.client.ident]?.log.entries.isEmpty == true)
    }

    /// The numbers of entries up to a version are those that a look at each of them would find.
    @Test func versionsHaveTheirPlaces() {
        var log = ViewLog()
        for version in [2, 2, 5, 6, 6, 6, 9] as [ServerVersion] {
            log.append(version, clientVersion: 0, timestamp: 0, origin: .server, ViewEntry.Contents(changeset: [1]))
        }
        #expect(log.number(upTo: 1) == 0 && log.number(upTo: 2) == 2)
        log.removeFirst(through: 2)
        let numbers = (0...10).map { log.number(upTo: ServerVersion($0)) }
        #expect(numbers == [2, 2, 2, 2, 2, 3, 6, 6, 6, 7, 7])
        log.removeFirst(through: 9)
        #expect(log.number(upTo: 0) == 7 && log.number(upTo: 9) == 7)
    }
}
