import AnabranchCore
import AnabranchRows
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// The state that a history keeps (`Spec/History.md`, section 16).
@Suite struct StateTests {
    /// A file that keeps its state, with a client that made the schema: version 1.
    ///
    /// Class T has an Int key, an Int "n", a list of Int "l", and "e", an object of the embedded class E with an Int
    /// "x" and a list of Int "xs". T[1] exists.
    struct Fixture {
        let test: TestStore
        var file: SyncedFile
        /// The state of every client that has downloaded version 1.
        let start: ObjectGraph

        init(_ kind: StoreKind = .memory, clients: Int = 3, cachedObjectsMax: Int = 16_384) throws {
            test = try TestStore(kind)
            file = try SyncedFile.open(in: test.store, keepsState: true, cachedObjectsMax: cachedObjectsMax)
            _ = try file.allocateIdents(for: Array(repeating: nil, count: clients), at: 1000)
            var graph = ObjectGraph()
            let schema = try graph.write(as: 2) { tx in
                try tx.addClass("T", key: "_id", .int)
                try tx.addEmbeddedClass("E")
                try tx.addColumn("x", .int, to: "E")
                try tx.addColumn("xs", .int, collection: .list, to: "E")
                try tx.addColumn("n", .int, to: "T")
                try tx.addColumn("l", .int, collection: .list, to: "T")
                try tx.addLink("e", to: "E", of: "T")
                let object = try tx.create("T", key: 1)
                try object.createObject("e")
                try object.list("l").append(7)
            }
            start = graph
            #expect(try file.integrate(Upload([schema.changeset]), from: 2) == nil)
        }

        /// The changeset of a client that has this state.
        static func changeset(
            on graph: ObjectGraph, _ body: (WriteTransaction) throws -> Void
        ) throws -> [UInt8] {
            var graph = graph
            return try graph.write(as: 9, body).changeset
        }

        /// The changeset of a client that has version 1.
        func changeset(_ body: (WriteTransaction) throws -> Void) throws -> [UInt8] {
            try Self.changeset(on: start, body)
        }

        func canonicalState() throws -> String {
            try file.withState { String(decoding: try $0.canonicalJSON(), as: UTF8.self) }
        }

        /// The log is what the state says.
        func check() throws {
            var replayed = ObjectGraph()
            #expect(try replayed.replay(file.log()).skippedCount == 0)
            let digest = try file.withState { try StateDigest(of: $0) }
            #expect(try digest == StateDigest(of: replayed))
            #expect(file.head.stateVersion == file.version)
        }
    }

    @Test(arguments: StoreKind.allCases) func theStateFollowsTheLogAndSurvivesARestart(kind: StoreKind) throws {
        for cachedObjectsMax in [0, 1000] {
            var fixture = try Fixture(kind, cachedObjectsMax: cachedObjectsMax)
            for number in 1...20 as ClosedRange<UInt64> {
                let changeset = try fixture.changeset { tx in
                    try tx.create("T", key: .int(Int64(number % 5)), ["n": .int(Int64(number))])
                }
                #expect(
                    try fixture.file.integrate(Upload([changeset], from: ClientVersion(number), base: 1), from: 3)
                        == nil)
            }
            let text = try fixture.canonicalState()
            #expect(text.contains(#"[{"int":"4"},{"e":null,"l":{"list":[]},"n":{"int":"19"}}]"#))
            try fixture.check()
            try fixture.test.restart()
            fixture.file = try SyncedFile.open(in: fixture.test.store, keepsState: true)
            #expect(try fixture.canonicalState() == text)
            try fixture.check()
            try fixture.test.verify()
        }
    }

    /// Chunks of long lists come and go with their object.
    @Test func longListsAreReadBackFromTheirChunks() throws {
        for cachedObjectsMax in [0, 1000] {
            let fixture = try Fixture(.sqlite, cachedObjectsMax: cachedObjectsMax)
            var graph = fixture.start
            var random = SeededRandom(seed: 5)
            for version in 1...30 as ClosedRange<UInt64> {
                let changeset = try graph.write(as: 3) { tx in
                    let list = try #require(try tx.object("T", key: 1)).list("l")
                    for value in 0..<(version == 1 ? 2000 : 40) {
                        try list.insert(.int(Int64(value)), at: Int.random(in: 0...list.count, using: &random))
                    }
                    let count = try list.count
                    if version == 15 { try list.removeSubrange(100..<count) }
                    if version % 5 == 0 { try list.removeSubrange(10..<60) }
                }.changeset
                #expect(
                    try fixture.file.integrate(Upload([changeset], from: ClientVersion(version), base: 1), from: 3)
                        == nil)
            }
            #expect(try fixture.canonicalState() == String(decoding: graph.canonicalJSON(), as: UTF8.self))
            try fixture.check()
            try fixture.test.verify()
        }
    }

    /// What was written counts, and what was read: not a large value beside it.
    @Test func largeObjectsDoNotStayInMemory() throws {
        for (cachedBytesMax, isKept) in [(10_000, false), (1 << 20, true)] {
            let test = try TestStore(.sqlite)
            let open = { try SyncedFile(path: VirtualPath("/a"), store: test.store, cachedBytesMax: cachedBytesMax) }
            var file = try open()
            _ = try file.allocateIdent()
            try file.write(at: 1) { tx in
                try tx.addClass("T", key: "_id", .int)
                try tx.addColumn("n", .int, to: "T")
                try tx.addColumn("b", .binary, to: "T")
                try tx.create("T", key: 1, ["b": .binary([UInt8](repeating: 1, count: 100_000))])
            }
            #expect(try file.withState { $0.loadedCount } == (isKept ? 1 : 0))
            file = try open()
            #expect(try file.integrate(Upload([ChangesetWriter.setting(1, to: 1)], base: 1), from: 2) == nil)
            #expect(try file.withState { $0.loadedCount } == 1)
        }
    }

    // MARK: Refusals

    @Test(arguments: StoreKind.allCases) func whatCannotBeAppliedIsRefusedAlone(kind: StoreKind) throws {
        let fixture = try Fixture(kind), file = fixture.file
        let before = file.head
        let good = try fixture.changeset { try $0.create("T", key: 5, ["n": 1]) }
        var other = fixture.start
        let bad = try other.write(as: 3) { tx in
            try tx.create("T", key: 6)["n"] = 2
            try tx.addColumn("secret", .int, to: "T")
        }
        let worse = try Fixture.changeset(on: other) { try $0.create("T", key: 6)["secret"] = 1 }
        try file.enqueue(Upload([good], from: 9, base: 1), from: 2)
        // Its second changeset needs an object that its first one does not bring.
        try file.enqueue(Upload([good, worse], from: 9, base: 1), from: 3)
        try file.enqueue(Upload([bad.changeset, worse], from: 9, base: 1), from: 4)
        let outcomes = try file.integrate(at: 1000).outcomes
        #expect(outcomes.map(\.refusal?.code) == [nil, .badChangeset, nil])
        #expect(outcomes[1].refusal?.reason == "changeset 10 cannot be applied: T[6].secret: no such object")
        #expect(outcomes.map(\.newVersions) == [1, 0, 2])
        #expect(try file.log(after: before.version).map(\.origin) == [2, 4, 4])
        #expect(try file.clientFile(3)?.uploadCursor == UploadCursor())
        try fixture.check()
    }

    @Test func everyRefusalNamesThePlace() throws {
        let fixture = try Fixture()
        var stranger = fixture.start
        _ = try stranger.write(as: 3) { tx in
            try tx.addClass("U", key: "_id", .string)
            try tx.create("U", key: "a")
            try tx.create("T", key: 2).list("l").append(1)
            try tx.object("T", key: 1)?.list("l").append(8)
        }
        let cases: [((WriteTransaction) throws -> Void, String)] = [
            ({ try $0.create("U", key: "b") }, "U[\"b\"]: no such class"),
            ({ try $0.object("T", key: 2)?.list("l").append(1) }, "T[2].l: no such object"),
            ({ try $0.object("T", key: 1)?.list("l").append(9) }, "T[1].l: index 2 of a list of 1"),
            ({ try $0.eraseClass("U") }, "U: no such class"),
        ]
        for (number, (body, reason)) in cases.enumerated() {
            let changeset = try Fixture.changeset(on: stranger, body)
            let refusal = try fixture.file.integrate(Upload([changeset], from: 5, base: 1), from: 3)
            #expect(refusal?.code == .badChangeset, "case \(number)")
            #expect(refusal?.reason == "changeset 5 cannot be applied: \(reason)", "case \(number)")
        }
        #expect(fixture.file.version == 1)
        try fixture.check()
    }

    // MARK: Instructions on what is erased

    private func integrated(_ file: SyncedFile, _ upload: Upload, from ident: ClientFileID) throws -> ClientOutcome {
        try file.enqueue(upload, from: ident)
        return try #require(try file.integrate(at: 1000).outcomes.first)
    }

    /// Changes to what somebody else has erased do not enter the log; the rest of their changeset does.
    @Test(arguments: StoreKind.allCases) func whatNeedsAnErasedColumnIsLeftOut(kind: StoreKind) throws {
        let fixture = try Fixture(kind), file = fixture.file
        let erasures = try fixture.changeset { tx in
            try tx.eraseColumn("l", of: "T")
            try tx.eraseColumn("xs", of: "E")
        }
        #expect(try file.integrate(Upload([erasures], from: 9, base: 1), from: 2) == nil)
        let edits = try fixture.changeset { tx in
            let object = try #require(try tx.object("T", key: 1))
            try object.list("l").append(8)
            object["n"] = 5
            try object.list("l").remove(at: 0)
            try object.object("e")?.list("xs").append(1)
        }
        let outcome = try integrated(file, Upload([edits], from: 9, base: 1), from: 3)
        #expect(outcome.refusal == nil && outcome.newVersions == 1)
        #expect(outcome.skippedInstructions.count == 3)
        #expect(outcome.skippedInstructions.firstReason?.description == "T[1].l: no such field")
        let rest = try fixture.changeset { try $0.object("T", key: 1)?.set("n", to: 5) }
        var arena = ChangesetArena()
        for bytes in [try file.log()[2].changeset, rest] {
            try arena.decode(bytes, version: 1, tag: OriginTag(timestamp: 1, ident: 1))
        }
        #expect(
            arena.instructions(of: 0).map { arena.text(of: $0) } == arena.instructions(of: 1).map { arena.text(of: $0) }
        )
        try fixture.check()
        // A client that knew of the erasure is refused.
        #expect(try file.integrate(Upload([edits], from: 9, base: 2), from: 4)?.code == .badChangeset)
        // So is the one that erased it.
        let own = try fixture.changeset { try $0.object("T", key: 1)?.list("l").append(8) }
        #expect(try file.integrate(Upload([own], from: 10, base: 1), from: 2)?.code == .badChangeset)
    }

    /// A column that was made anew under the same name is not the one that the client knew.
    @Test func whatNeedsAColumnThatWasMadeAnewIsLeftOut() throws {
        let fixture = try Fixture(), file = fixture.file
        var graph = fixture.start
        let anew = try ["l", "l"].enumerated().map { number, field in
            try graph.write(as: 2) { tx in
                if number == 0 { try tx.eraseColumn(field, of: "T") } else { try tx.addColumn(field, .string, to: "T") }
            }.changeset
        }
        #expect(try file.integrate(Upload(anew, from: 9, base: 1), from: 2) == nil)
        let edit = try fixture.changeset { try $0.object("T", key: 1)?.list("l").append(8) }
        let outcome = try integrated(file, Upload([edit], from: 9, base: 1), from: 3)
        #expect(outcome.refusal == nil && outcome.skippedInstructions.count == 1)
        #expect(try file.log().last?.changeset == [])
        try fixture.check()
    }

    /// The erasure may have come a moment before, in the same transaction.
    @Test func erasuresEarlierInTheDrainCount() throws {
        let fixture = try Fixture(), file = fixture.file
        try file.enqueue(
            Upload([try fixture.changeset { try $0.eraseColumn("l", of: "T") }], from: 9, base: 1), from: 2)
        try file.enqueue(
            Upload([try fixture.changeset { try $0.object("T", key: 1)?.list("l").append(8) }], from: 9, base: 1),
            from: 3)
        let outcomes = try file.integrate(at: 1000).outcomes
        #expect(outcomes.map(\.refusal) == [nil, nil])
        #expect(outcomes.map(\.skippedInstructions.count) == [0, 1])
        try fixture.check()
    }

    // MARK: Asymmetric objects (`Spec/State.md`, A1)

    @Test(arguments: StoreKind.allCases) func asymmetricObjectsAreLoggedAndNotKept(kind: StoreKind) throws {
        let fixture = try Fixture(kind), file = fixture.file
        let changesets = try [
            fixture.changeset { try $0.addClass("Reading", key: "_id", .int, isAsymmetric: true) },
            fixture.changeset { tx in
                try tx.addClass("Reading", key: "_id", .int, isAsymmetric: true)
                try tx.create("Reading", key: 1)
            },
        ]
        #expect(try file.integrate(Upload(changesets, from: 9, base: 1), from: 3) == nil)
        #expect(try file.log().last?.changeset.isEmpty == false)
        #expect(try fixture.canonicalState().contains(#""Reading":[]"#))
        try fixture.check()
        try file.write(at: 1) { _ = try $0.create("Reading", key: 2) }
        #expect(try fixture.canonicalState().contains(#""Reading":[]"#))
        try fixture.check()
    }

    // MARK: Catching up

    @Test(arguments: StoreKind.allCases) func aStateThatIsBehindItsLogCatchesUpOnce(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let relay = try SyncedFile.open(in: test.store)
        _ = try relay.allocateIdent()
        var graph = ObjectGraph()
        var changesets = [try graph.write(as: 2) { try $0.addClass("T", key: "_id", .int) }.changeset]
        changesets.append(try graph.write(as: 2) { try $0.addColumn("b", .binary, to: "T") }.changeset)
        // More than one step takes.
        for number in 0..<12 {
            let bytes = [UInt8](repeating: UInt8(number), count: 300_000)
            changesets.append(
                try graph.write(as: 2) { tx in
                    try tx.create("T", key: .int(Int64(number)), ["b": .binary(bytes)])
                }.changeset)
        }
        // What a server that keeps no state lets in.
        changesets.append(ChangesetWriter.setting(99, to: 1))
        #expect(try relay.integrate(Upload(changesets), from: 2) == nil)
        #expect(relay.head.stateVersion == 0)
        #expect(throws: HistoryError(.storeUnusable, "")) { try relay.withState { _ in } }
        #expect(throws: HistoryError(.storeUnusable, "")) { try relay.write(at: 1) { _ in } }
        for _ in 0..<2 {
            try test.restart()
            let file = try SyncedFile.open(in: test.store, keepsState: true, cachedObjectsMax: 1)
            #expect(file.head.stateVersion == file.version && file.version == 15)
            #expect(try file.withState { try StateDigest(of: $0) } == StateDigest(of: graph))
        }
        try test.verify()
    }

    // MARK: Trouble of the store

    /// Nothing is wrong with an upload whose objects cannot be read.
    @Test func troubleWithReadingObjectsIsTransient() throws {
        let test = try TestStore(.sqlite)
        let store = FailingStore(try #require(test.store as? SQLiteStore))
        let file = try SyncedFile(path: VirtualPath("/a"), store: store, cachedObjectsMax: 0)
        _ = try file.allocateIdent()
        let changesets = [ChangesetWriter.schema, Self.creating(1)]
        #expect(try file.integrate(Upload(changesets), from: 2) == nil)
        let upload = Upload([ChangesetWriter.setting(1, to: 5)], from: 3)
        store.isFailing.withLock { $0 = true }
        #expect(try file.integrate(upload, from: 2)?.code == .storeFailed)
        #expect(try code { try file.write(at: 1) { _ in } } == nil, "nothing was read")
        #expect(try code { try file.write(at: 1) { _ = try $0.objects("T") } } == .storeFailed)
        store.isFailing.withLock { $0 = false }
        #expect(try file.integrate(upload, from: 2) == nil)
        #expect(file.version == 3)
    }

    static func creating(_ key: Int64) -> [UInt8] {
        var builder = ChangesetWriter()
        builder.create(key)
        return builder.bytes
    }
}

/// A store whose rows cannot be read at times.
private final class FailingStore: HistoryStore {
    private struct Rows: ObjectRows {
        let base: StateRows
        let store: FailingStore

        func row(at address: RowAddress) throws -> [UInt8]? {
            try store.check()
            return try base.row(at: address)
        }

        func objects(
            of classID: ClassID, after key: [UInt8]?, limit: Int
        ) throws -> [(key: [UInt8], row: [UInt8])] {
            try store.check()
            return try base.objects(of: classID, after: key, limit: limit)
        }
    }

    private let base: SQLiteStore
    let isFailing = Mutex(false)

    init(_ base: SQLiteStore) { self.base = base }

    func check() throws {
        if isFailing.withLock({ $0 }) { throw HistoryError(.storeFailed, "input/output error") }
    }

    func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile { try base.open(path) }

    func contains(_ path: VirtualPath) throws(HistoryError) -> Bool { try base.contains(path) }

    func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try base.read(file, body)
    }

    func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph {
        do {
            let rows = StateRows(StateTable(file: file.number), in: base.shards[0].pool)
            return try ObjectGraph(rows: Rows(base: rows, store: self))
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
    }

    func commit(_ commits: [Commit]) throws(HistoryError) { try base.commit(commits) }
}
