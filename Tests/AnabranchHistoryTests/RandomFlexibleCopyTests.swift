import AnabranchCore
import AnabranchRules
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory

/// Random worlds of flexible sync with copies from every cursor, which connect at once or much later, while queries
/// change, views expire and the log is trimmed: each client has what it may see, once, and who can go on does.
@Suite struct RandomFlexibleCopyTests {
    private struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// A client, and the set that it has.
    private struct Device {
        var client: MemoryClient
        var set: SubscriptionSet
    }

    /// A copy that was not connected yet.
    private struct Copy {
        var device: Device
        let original: ClientFileID
    }

    private struct World {
        private let test: TestStore
        private var synced: SyncedFile
        private var file: FlexibleFile
        private var random: SeededRandom
        private var devices: [Device] = []
        private var waiting: [Copy] = []
        private var created: Int64 = 0
        private(set) var wentOn = 0, resets = 0

        init(_ seed: UInt64, in test: TestStore) throws {
            self.test = test
            synced = try SyncedFile(path: VirtualPath("notes"), store: test.store)
            file = try FlexibleFile(synced)
            random = SeededRandom(scrambling: seed)
            try file.write(at: 1) { tx in
                try tx.addClass("Note", key: "_id", .int)
                try tx.addColumn("text", .string, to: "Note")
                try tx.addColumn("n", .int, to: "Note")
            }
            try begin()
        }

        mutating func step() throws {
            let index = random.below(devices.count)
            switch random.below(16) {
            case 0...3: try writeHere(index)
            case 4, 5: try serverWrites()
            case 6, 7: try exchange(index)
            case 8, 9: try receive(index)
            case 10: try changeQueries(index)
            case 11, 12: try copy(index)
            case 13: if !waiting.isEmpty { try connect(random.below(waiting.count)) }
            case 14: if devices.count < 8 { try begin() }
            default: try maintain()
            }
        }

        // MARK: Writing

        /// A new note, or another text in one that is there.
        private mutating func edit() -> (WriteTransaction) throws -> Void {
            created += 1
            let key = random.isOne(in: 2) ? created : 1 + Int64(random.below(Int(created))), number = created
            let text = random.pick(["a", "b", "c"]) + "\(number)", isErased = random.isOne(in: 8)
            return { tx in
                guard tx.classNames.contains("Note") else { return }
                if isErased { return try tx.object("Note", key: .int(key)).map { try tx.delete($0) } ?? () }
                let note = try tx.object("Note", key: .int(key)) ?? tx.create("Note", key: .int(key))
                try note.set("text", to: .string(Array(text.utf8)))
                try note.set("n", to: .int(number))
            }
        }

        private mutating func writeHere(_ index: Int) throws {
            let edit = edit()
            try devices[index].client.write(at: ChangesetTime(UInt64(100 + created)), edit)
        }

        private mutating func serverWrites() throws {
            let edit = edit()
            try file.write(at: ChangesetTime(UInt64(100 + created)), edit)
        }

        // MARK: Sessions

        private mutating func begin() throws {
            let client = MemoryClient(try synced.allocateIdents(for: [nil], at: 1)[0])
            devices.append(Device(client: client, set: .none))
            try changeQueries(devices.count - 1)
        }

        private func identify(_ device: inout Device) throws -> ViewSession {
            device.client.startSession()
            var request = device.client.identRequest
            request.subscriptions = device.set
            return try file.identify(request)
        }

        /// All that there is, both ways.
        private mutating func exchange(_ index: Int) throws {
            var session = try identify(&devices[index])
            try finish(&session, index)
        }

        private mutating func finish(_ session: inout ViewSession, _ index: Int) throws {
            let ident = devices[index].client.ident
            var isOver = false
            while !isOver {
                isOver = true
                while let upload = devices[index].client.nextUpload(), let rest = try session.progress.accept(upload) {
                    isOver = false
                    if try file.recordProgress(rest, from: ident, at: 1) { continue }
                    try file.integrate(rest, from: ident, at: 1)
                }
                while let message = try file.download(for: &session) {
                    isOver = false
                    try devices[index].client.integrate(message.download)
                }
            }
            file.leave(ident)
            try check(index)
        }

        /// One message, of one entry as far as they come one by one.
        private mutating func receive(_ index: Int) throws {
            var session = try identify(&devices[index])
            if let message = try file.download(for: &session, byteBudget: 0) {
                try devices[index].client.integrate(message.download)
            }
            file.leave(devices[index].client.ident)
        }

        private mutating func changeQueries(_ index: Int) throws {
            try exchange(index)
            var session = try identify(&devices[index])
            let limit = random.below(Int(created) + 1)
            let query = random.pick([
                "TRUEPREDICATE", #"text BEGINSWITH \"a\""#, #"text BEGINSWITH \"b\""#, "n > \(limit)", "n <= \(limit)",
            ])
            devices[index].set = SubscriptionSet(
                version: QueryVersion(devices[index].set.version.rawValue + 1),
                query: Array(#"{"Note":"\#(query)"}"#.utf8))
            if let reason = try file.query(devices[index].set, in: &session) { throw Failure(description: reason) }
            try finish(&session, index)
        }

        /// There is nothing more to be said to it.
        private func check(_ index: Int) throws {
            let client = devices[index].client
            let seen = try file.visibleState(to: client.ident, by: .everything)
            guard try StateDigest(of: seen) != StateDigest(of: client.state) else { return }
            let texts = try [seen, client.state].map { String(decoding: try $0.canonicalJSON(), as: UTF8.self) }
            throw Failure(description: "client \(client.ident) sees\n\(texts[0])\nand has\n\(texts[1])")
        }

        // MARK: Copies

        private mutating func copy(_ index: Int) throws {
            let original = devices[index]
            guard original.client.isAcknowledged else { return }
            let ident = try synced.allocateIdents(for: [nil], at: 1)[0]
            var copy = Copy(
                device: Device(client: try original.client.copy(as: ident), set: original.set),
                original: original.client.ident)
            if random.isOne(in: 3) {
                let edit = edit()
                try copy.device.client.write(at: ChangesetTime(UInt64(100 + created)), edit)
            }
            waiting.append(copy)
            if random.isOne(in: 2) { try connect(waiting.count - 1) }
        }

        /// As long as the log has what follows, and the original's view the same set, a copy goes on that was not made
        /// in the midst of a download.
        private mutating func connect(_ index: Int) throws {
            var copy = waiting.remove(at: index)
            let cursor = copy.device.client.download.serverVersion
            let original = devices.first { $0.client.ident == copy.original }
            let isWhole = copy.device.client.identRequest.latest.version == cursor
            let isKnown =
                cursor == 0
                || isWhole && cursor >= synced.head.baseVersion
                    && original?.set.version == copy.device.set.version
            do {
                var session = try identify(&copy.device)
                guard session.progress.download == copy.device.client.download else {
                    throw Failure(description: "a copy at \(cursor) goes on at \(session.progress.download)")
                }
                devices.append(copy.device)
                wentOn += 1
                try finish(&session, devices.count - 1)
            } catch let error as HistoryError {
                guard !isKnown, [.clientFileExpired, .divergingHistories].contains(error.code) else {
                    throw Failure(description: "a copy at \(cursor) is refused: \(error)")
                }
                resets += 1
            }
        }

        // MARK: The server

        private mutating func maintain() throws {
            if random.isOne(in: 3) { file = try FlexibleFile(synced) }
            if random.isOne(in: 2), devices.count > 3 {
                let index = random.below(devices.count)
                try exchange(index)
                _ = try file.expire(devices.remove(at: index).client.ident)
            }
            // The log is as long as the slowest needs it.
            for index in devices.indices where random.isOne(in: 2) { try exchange(index) }
            try synced.writeProgress()
            _ = try synced.maintain(at: 1_000, HistoryPolicy(), expires: false)
        }

        /// Everybody has everything that it sees.
        mutating func end() throws {
            while !waiting.isEmpty { try connect(0) }
            for _ in 0..<2 { for index in devices.indices { try exchange(index) } }
            try test.verify()
        }
    }

    /// More of them: `ANABRANCH_COPIES=5000 swift test --filter RandomFlexibleCopyTests`.
    @Test(arguments: [StoreKind.memory, .sqlite]) func eachHasWhatItSees(kind: StoreKind) async throws {
        let runs = RandomRuns(kind == .memory ? RandomRuns.count(60, or: "ANABRANCH_COPIES") : 5)
        var wentOn = 0, resets = 0
        await runs.each { seed in
            var world = try World(seed, in: TestStore(kind))
            for _ in 0..<100 { try world.step() }
            try world.end()
            wentOn += world.wentOn
            resets += world.resets
        }
        guard kind == .memory, runs.areMany else { return }
        #expect(wentOn > 100 && resets > 0, "\(wentOn), \(resets)")
    }
}
