import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory

/// Null that is taken out of a set of a nullable type, which no client can download: the server puts it back, and all
/// replicas end in one state (`Spec/History.md`, section 16.3).
@Suite struct NullErasureTests {
    /// A value of each type that a set can have, beside null.
    private static let values: [Payload] =
        [
            5, .bool(true), "a", .binary([1]), .timestamp(Timestamp(seconds: 1, nanoseconds: 2)), .float(1), .double(2),
            .decimal(Decimal128(low: 1, high: 0x3040_0000_0000_0000)),
        ]
        + [
            ObjectID(repeatElement(1, count: 12)).map(Payload.objectID),
            UUIDBytes(repeatElement(1, count: 16)).map(Payload.uuid),
        ].compactMap(\.self)

    private enum Action: CaseIterable {
        case insertNull, removeNull, insertValue, removeValue, clear, eraseObject, createObject

        func apply(_ value: Payload, in tx: WriteTransaction) throws {
            guard let object = try tx.object("T", key: 1) else {
                if self == .createObject { try tx.create("T", key: 1) }
                return
            }
            let set = try object.set("s")
            switch self {
            case .insertNull: try set.insert(.null)
            case .removeNull: try set.remove(.null)
            case .insertValue: try set.insert(value)
            case .removeValue: try set.remove(value)
            case .clear: try set.removeAll()
            case .eraseObject: try tx.delete(object)
            case .createObject: break
            }
        }
    }

    /// Two clients offline: the first makes two transactions, of which only one is uploaded at first.
    private struct Round: CustomStringConvertible {
        var value: Payload
        var start: [Action]
        var first: [Action]
        var later: [Action]
        var other: [Action]
        var firstIsOlder: Bool
        var firstComesFirst: Bool

        var description: String {
            "start \(start), first \(first) then \(later), other \(other), first is older: \(firstIsOlder), "
                + "comes first: \(firstComesFirst), value \(value)"
        }

        /// - Returns: How many entries put nulls back; the round fails by throwing.
        func run() throws -> Int {
            let file = try SyncedFile.open(in: InMemoryStore(), keepsState: true)
            var clients = try file.allocateIdents(for: [nil, nil, nil], at: 1).map { MemoryClient($0) }
            try clients[0].write(at: 1) { tx in
                try tx.addClass("T", key: "_id", .int)
                try tx.addColumn("s", value.type, isNullable: true, collection: .set, to: "T")
                try tx.create("T", key: 1)
                for action in start { try action.apply(value, in: tx) }
            }
            try clients[0].upload(to: file)
            for index in 0..<2 { try clients[index].download(from: file) }
            try write(first, by: &clients[0], at: firstIsOlder ? 10 : 30)
            try write(other, by: &clients[1], at: 20)
            if !firstComesFirst { try clients[1].upload(to: file) }
            try clients[0].upload(to: file)
            try write(later, by: &clients[0], at: firstIsOlder ? 15 : 35)
            if firstComesFirst { try clients[1].upload(to: file) }
            // Two times: what the server puts back is uploaded against.
            for _ in 0..<2 { for index in clients.indices { try clients[index].download(from: file) } }
            try clients[0].upload(to: file)
            for index in clients.indices { try clients[index].download(from: file) }
            return try check(file, clients)
        }

        private func write(_ actions: [Action], by client: inout MemoryClient, at time: ChangesetTime) throws {
            try client.write(at: time) { tx in for action in actions { try action.apply(value, in: tx) } }
        }

        private func check(_ file: SyncedFile, _ clients: [MemoryClient]) throws -> Int {
            let log = try file.log()
            for entry in log {
                var arena = ChangesetArena()
                let index = try entry.decode(into: &arena)
                let kills = arena.instructions(of: index).contains {
                    $0.kind == .setErase && arena.payload(of: $0) == .null
                }
                if kills { throw Workload.Violation(description: "an entry takes null out of a set") }
            }
            let digest = try file.withState { try StateDigest(of: $0) }
            for client in clients where try StateDigest(of: client.state) != digest {
                throw Workload.Violation(description: "client \(client.ident) differs")
            }
            var replayed = ObjectGraph()
            guard try replayed.replay(log).skippedCount == 0, try StateDigest(of: replayed) == digest else {
                throw Workload.Violation(description: "the log is not the state")
            }
            return log.count { $0.origin == 0 }
        }
    }

    /// Longer first programs: `ANABRANCH_SEQUENCE_LENGTH=2 swift test --filter NullErasureTests`.
    private static let length =
        ProcessInfo.processInfo.environment["ANABRANCH_SEQUENCE_LENGTH"].flatMap { Int($0) } ?? 1

    /// All of up to so many actions.
    private static func programs(_ countMax: Int) -> [[Action]] {
        var programs: [[Action]] = [[]]
        for count in 0..<countMax {
            programs += programs.filter { $0.count == count }.flatMap { known in Action.allCases.map { known + [$0] } }
        }
        return programs
    }

    private static func check(
        _ value: Payload, first: [[Action]], later: [[Action]], other: [[Action]]
    ) async -> Int {
        var restored = 0
        for start in [[], [.insertNull], [.insertNull, .insertValue]] as [[Action]] {
            for first in first {
                for later in later {
                    await Task.yield()  // all tests share a few threads
                    for other in other {
                        for order in 0..<4 {
                            let round = Round(
                                value: value, start: start, first: first, later: later, other: other,
                                firstIsOlder: order & 1 == 0, firstComesFirst: order & 2 == 0)
                            do {
                                restored += try round.run()
                            } catch {
                                Issue.record("\(error) (\(round))")
                            }
                        }
                    }
                }
            }
        }
        return restored
    }

    @Test func allSmallProgramsOfTwoClientsEndInOneState() async {
        let single = Self.programs(1)
        #expect(await Self.check(5, first: Self.programs(Self.length), later: single, other: single) > 100)
        #expect(await Self.check(5, first: [[.removeNull]], later: Self.programs(2), other: single) > 100)
        #expect(await Self.check(5, first: [[.removeNull]], later: single, other: Self.programs(2)) > 100)
    }

    @Test func everyTypeOfASetIsTreatedAlike() async {
        for value in Self.values {
            let some: [[Action]] = [[], [.removeNull], [.insertNull], [.clear]]
            let restored = await Self.check(value, first: [[.removeNull]], later: some, other: some)
            #expect(restored > 20, "\(value.type)")
        }
    }

    /// A set of Mixed has no such defect.
    @Test func nullLeavesASetOfMixed() throws {
        let file = try SyncedFile.open(in: InMemoryStore(), keepsState: true)
        var client = MemoryClient(try file.allocateIdent())
        try client.write(at: 1) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addColumn("s", .null, collection: .set, to: "T")
            try tx.create("T", key: 1).set("s").insert(.null)
        }
        try client.write(at: 2) { try $0.object("T", key: 1)?.set("s").remove(.null) }
        try client.upload(to: file)
        #expect(try file.log().map(\.origin) == [2, 2])
        #expect(try file.withState { try StateDigest(of: $0) } == StateDigest(of: client.state))
    }

    // MARK: Places

    /// T[1] with a list "l" and a dictionary "d" of E, each with one set "s" that holds null; two clients have it.
    private static func nested() throws -> (file: SyncedFile, clients: [MemoryClient]) {
        let file = try SyncedFile.open(in: InMemoryStore(), keepsState: true)
        var clients = try file.allocateIdents(for: [nil, nil], at: 1).map { MemoryClient($0) }
        try clients[0].write(at: 1) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addEmbeddedClass("E")
            try tx.addColumn("s", .int, isNullable: true, collection: .set, to: "E")
            try tx.addLink("l", to: "E", collection: .list, of: "T")
            try tx.addLink("d", to: "E", collection: .dictionary, of: "T")
            let object = try tx.create("T", key: 1)
            for index in 0..<2 {
                try object.list("l").insert(.objectValue, at: index)
                try object.list("l").object(at: index).set("s").insert(.null)
            }
            try object.dictionary("d").createObject(for: "k").set("s").insert(.null)
        }
        try clients[0].upload(to: file)
        for index in clients.indices { try clients[index].download(from: file) }
        return (file, clients)
    }

    /// True if the server and all clients hold the same in the end.
    private static func agree(_ file: SyncedFile, _ clients: inout [MemoryClient]) throws -> Bool {
        for index in clients.indices { try clients[index].download(from: file) }
        let digest = try file.withState { try StateDigest(of: $0) }
        return try clients.allSatisfy { try StateDigest(of: $0.state) == digest }
    }

    @Test func nullComesBackInsideEmbeddedObjectsToo() throws {
        var (file, clients) = try Self.nested()
        // The other client moves the element meanwhile.
        try clients[1].write(at: 5) { try $0.object("T", key: 1)?.list("l").insert(.objectValue, at: 0) }
        try clients[1].upload(to: file)
        try clients[0].write(at: 6) { tx in
            try tx.object("T", key: 1)?.list("l").object(at: 1).set("s").remove(.null)
            try tx.object("T", key: 1)?.dictionary("d").object(for: "k")?.set("s").remove(.null)
        }
        try clients[0].upload(to: file)
        #expect(try file.log().map(\.origin) == [2, 3, 2, 0])
        #expect(try Self.agree(file, &clients))
    }

    /// Where the changeset goes on to move what the path leads to, nobody can tell where the set is: refused, as the
    /// reference refuses all of them.
    @Test func aSetThatMovesAfterwardsIsRefused() throws {
        var (file, clients) = try Self.nested()
        try clients[0].write(at: 6) { tx in
            let list = try #require(try tx.object("T", key: 1)?.list("l"))
            try list.object(at: 1).set("s").remove(.null)
            try list.remove(at: 0)
        }
        let next = clients[0].nextUpload()
        let upload = try #require(next)
        #expect(try file.integrate(upload, from: clients[0].ident)?.code == .badChangeset)
        #expect(file.version == 1)
    }

    /// Each is a run of its own, and decoded once.
    @Test func manyChangesetsThatTakeNullOutCostWhatTheyAre() throws {
        let bytes = try [100, 200].map { count in
            let (file, clients) = try Self.nested()
            let erasure = ChangesetWriter([
                .setErase(
                    FieldPath(
                        object: ObjectName(className: "T", key: .int(1)), field: "d", path: [.name("k"), .name("s")]),
                    .null)
            ]).bytes
            let upload = Upload(Array(repeating: erasure, count: count), from: 9, base: 1)
            try file.enqueue(upload, from: clients[1].ident)
            var (restored, bytesMax) = (0, 0)
            while file.hasQueuedUploads {
                let report = try file.stepIntegration(at: 1)
                restored += report?.outcomes.reduce(0) { $0 + $1.entriesRestoringNulls } ?? 0
                bytesMax = max(bytesMax, file.integrationBytes)
            }
            #expect(restored == count)
            return bytesMax
        }
        #expect(bytes[1] < 3 * bytes[0])
    }

    @Test func nullComesBackOnceHoweverOftenItWasTakenOut() throws {
        let (file, clients) = try Self.nested()
        var graph = try file.withState { $0 }
        let changeset = try graph.write(as: 3) { tx in
            let set = try #require(try tx.object("T", key: 1)?.dictionary("d").object(for: "k")).set("s")
            for _ in 0..<5 {
                try set.remove(.null)
                try set.insert(.null)
            }
            try set.remove(.null)
        }.changeset
        #expect(try file.integrate(Upload([changeset], from: 9, base: 1), from: clients[1].ident) == nil)
        let entry = try #require(try file.log().last)
        var arena = ChangesetArena()
        let index = try entry.decode(into: &arena)
        #expect(entry.origin == 0 && arena.instructions(of: index).map(\.kind) == [.setInsert])
    }

    @Test func theServerItselfDoesNotTakeNullOut() throws {
        let (file, _) = try Self.nested()
        let error = #expect(throws: ApplyError.self) {
            try file.write(at: 9) { tx in
                try tx.object("T", key: 1)?.dictionary("d").object(for: "k")?.set("s").remove(.null)
            }
        }
        #expect(error?.code == .nullErasure)
        #expect(file.version == 1)
    }
}
