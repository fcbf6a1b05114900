import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory

/// Random worlds with copies from every cursor, which connect at once or much later, while generations are made and the
/// log is trimmed: nothing is lost or doubled, and who can go on does.
@Suite struct RandomCopyTests {
    private struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    private struct World {
        let file: SyncedFile
        var random: SeededRandom
        var clients: [MemoryClient] = []
        /// Copies that were not connected yet, and the generation that their originals were within.
        private var waiting: [(client: MemoryClient, within: ServerVersion?)] = []
        private var created: Int64 = 0
        private(set) var wentOn = 0, inGenerations = 0, resets = 0

        init(_ seed: UInt64, in store: any HistoryStore) throws {
            file = try SyncedFile.open(in: store, keepsState: true)
            random = SeededRandom(seed: seed)
            clients = [MemoryClient(try file.allocateIdent())]
            try clients[0].commit(ChangesetWriter.schema, at: 1)
            try exchange(0)
        }

        mutating func step() throws {
            let index = random.below(clients.count)
            switch random.below(12) {
            case 0...3: try Self.write(nextNumber(), in: &clients[index])
            case 4, 5: try exchange(index)
            case 6, 7: try receive(index)
            case 8: try copy(index)
            case 9: try begin()
            case 10: if !waiting.isEmpty { try connect(random.below(waiting.count)) }
            default: try maintain()
            }
        }

        private mutating func nextNumber() -> Int64 {
            created += 1
            return created
        }

        /// An object of its own, and one that all write to.
        private static func write(_ number: Int64, in client: inout MemoryClient) throws {
            // In the middle of a generation it may have no class yet, or no column.
            let schema = client.state.schema(ofClass: Array("T".utf8))
            guard schema?.property(named: Array("n".utf8)) != nil else { return }
            try client.write(at: ChangesetTime(UInt64(100 + number))) { tx in
                try tx.create("T", key: .int(1_000 + number), ["n": .int(number)])
                let shared = try tx.object("T", key: 1) ?? tx.create("T", key: 1)
                try shared.set("n", to: .int(number))
            }
        }

        /// All that there is, both ways.
        mutating func exchange(_ index: Int) throws {
            clients[index].startSession()
            _ = try file.identify(clients[index].identRequest)
            while !clients[index].isAcknowledged || clients[index].download.serverVersion < file.version {
                try clients[index].upload(to: file)
                try clients[index].integrate(next(clients[index], .max))
            }
        }

        /// One entry.
        private mutating func receive(_ index: Int) throws {
            clients[index].startSession()
            _ = try file.identify(clients[index].identRequest)
            try clients[index].integrate(next(clients[index], 0))
        }

        private func next(_ client: MemoryClient, _ bytes: Int) throws -> Download {
            try file.downloads(for: client.ident).download(after: client.download, byteBudget: bytes)
        }

        private mutating func begin() throws {
            guard clients.count < 12 else { return }
            clients.append(MemoryClient(try file.allocateIdent()))
            try receive(clients.count - 1)
        }

        private mutating func copy(_ index: Int) throws {
            guard clients[index].isAcknowledged else { return }
            let original = clients[index], cursor = original.download.serverVersion
            var copy = try original.copy(as: file.allocateIdent()), within: ServerVersion?
            if case .generation(let version)? = try file.clientFile(original.ident)?.lineage, 0 < cursor,
                cursor < version
            {
                within = version
            }
            if random.isOne(in: 3) { try Self.write(nextNumber(), in: &copy) }
            waiting.append((copy, within))
            if random.isOne(in: 2) { try connect(waiting.count - 1) }
        }

        /// Where the log or a generation knows the place it goes on from there, and else it is reset.
        private mutating func connect(_ index: Int) throws {
            let (copy, within) = waiting.remove(at: index), cursor = copy.download.serverVersion
            let isKnown =
                try within.map { version in try file.generations().contains { $0.version == version } }
                ?? (cursor == 0 || cursor >= file.head.baseVersion)
            do {
                let session = try file.identify(copy.identRequest)
                guard isKnown, session.download == copy.download else {
                    throw Failure(description: "a copy at \(cursor) goes on at \(session.download)")
                }
                clients.append(copy)
                wentOn += 1
                if within != nil { inGenerations += 1 }
                try exchange(clients.count - 1)
            } catch let error as HistoryError {
                guard !isKnown, [.clientFileExpired, .divergingHistories].contains(error.code) else {
                    throw Failure(description: "a copy at \(cursor) is refused: \(error)")
                }
                resets += 1
            }
        }

        private mutating func maintain() throws {
            if random.isOne(in: 3), clients.count > 3 {
                let index = 1 + random.below(clients.count - 1)
                try exchange(index)
                try file.expire(clients.remove(at: index).ident)
            }
            // So nobody needs the log but the copies.
            if random.isOne(in: 2) { for index in clients.indices { try exchange(index) } }
            if random.isOne(in: 2) { try file.makeGeneration(endingAt: 1 + random.below(200)) }
            let newest = try file.generations().last?.version ?? 0
            try file.trim(upTo: file.floor(upTo: newest))
            _ = try file.run(MaintenanceRound(HistoryPolicy(), at: 1000, expires: false, connected: []))
        }

        /// Everybody has everything, once.
        mutating func end() throws {
            while !waiting.isEmpty { try connect(0) }
            for _ in 0..<2 { for index in clients.indices { try exchange(index) } }
            let state = try file.withState { try StateDigest(of: $0) }
            for client in clients where try StateDigest(of: client.state) != state {
                throw Failure(description: "client \(client.ident) has another state")
            }
        }
    }

    /// More of them: `ANABRANCH_COPIES=5000 swift test --filter RandomCopyTests`.
    @Test(arguments: StoreKind.allCases) func nothingIsLostOrDoubled(kind: StoreKind) async throws {
        let runs = RandomRuns(kind == .memory ? RandomRuns.count(60, or: "ANABRANCH_COPIES") : 8)
        var wentOn = 0, inGenerations = 0, resets = 0
        await runs.each { seed in
            let test = try TestStore(kind)
            var world = try World(seed, in: test.store)
            for _ in 0..<120 { try world.step() }
            try world.end()
            try test.verify()
            wentOn += world.wentOn
            inGenerations += world.inGenerations
            resets += world.resets
        }
        guard kind == .memory, runs.areMany else { return }
        #expect(wentOn > 100 && inGenerations > 0 && resets > 0, "\(wentOn), \(inGenerations), \(resets)")
    }
}

extension SyncedFile {
    /// True if there is a generation, and the log after it.
    fileprivate func isLiving(_ generation: ServerVersion) throws -> Bool {
        try generation >= head.baseVersion && generations().contains { $0.version == generation }
    }
}
