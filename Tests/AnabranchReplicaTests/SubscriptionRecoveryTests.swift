import AnabranchCore
import AnabranchProtocol
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchReplica

/// Client resets while subscription sets wait: what was written for a set reaches the server after the QUERY for it
/// (`Spec/Replica.md`, section 4).
@Suite struct SubscriptionRecoveryTests {
    private static let classes = ["A", "B", "C"]

    enum Step: Hashable, Sendable {
        /// Classes by their place in `classes`.
        case subscribe([Int])
        /// In a class of the newest set.
        case create(Int)
        case exchange
        /// A session that is lost after so many messages of the server, perhaps between the parts of a bootstrap.
        case lose(Int)
        case reset
        case others(Int)
    }

    @Test(
        "what was written for a set that waits is there in the end",
        arguments: [
            [.subscribe([0, 1]), .create(1), .reset],
            [.create(0), .subscribe([1]), .create(1), .subscribe([2]), .create(2), .reset],
            [.subscribe([0, 1]), .create(1), .reset, .create(1), .reset],
            [.subscribe([0, 1]), .create(1), .others(1), .lose(1), .reset],
            [.subscribe([0, 1]), .lose(0), .create(1), .reset, .reset],
            [.subscribe([]), .subscribe([2]), .create(2), .reset, .subscribe([0]), .create(0), .reset],
        ] as [[Step]])
    func kept(steps: [Step]) throws { try Self.run(steps, partBytes: 1, "\(steps)") }

    private static let environment = ProcessInfo.processInfo.environment

    /// More of them: `ANABRANCH_RECOVERIES=20000 swift test --filter setsKeepTheirPlace`.
    @Test("whatever happens between sets, resets and lost sessions, nothing is undone and nothing is missing")
    func setsKeepTheirPlace() async throws {
        let only = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init)
        let count = Self.environment["ANABRANCH_RECOVERIES"].flatMap(UInt64.init) ?? 100
        for seed in only.map({ $0...$0 }) ?? 1...count {
            var random = SeededRandom(scrambling: seed)
            let steps = (0..<4 + random.below(10)).map { _ in Self.step(&random) }
            let name = "ANABRANCH_SEED=\(seed) swift test --filter setsKeepTheirPlace: \(steps)"
            do { try Self.run(steps, partBytes: random.pick([1, 60, 4 << 20]), name) } catch {
                Issue.record("\(name): \(error)")
            }
            await Task.yield()  // all tests share a few threads
        }
    }

    private static func step(_ random: inout SeededRandom) -> Step {
        switch random.below(10) {
        case 0, 1: .subscribe((0..<classes.count).filter { _ in random.isOne(in: 2) })
        case 2...4: .create(random.below(classes.count))
        case 5: .exchange
        case 6: .lose(random.below(3))
        case 7: .others(random.below(classes.count))
        default: .reset
        }
    }

    private static func run(_ steps: [Step], partBytes: Int, _ name: String) throws {
        let server = try RecoveryServer(.flexible) { tx in
            for (number, name) in classes.enumerated() {
                try tx.addClass(name, key: "_id", .int)
                for key in 1...2 { try tx.create(name, key: .int(Int64(10 * number + key))) }
            }
        }
        server.setPartBytes(partBytes)
        var other = try server.replica(), local = try server.replica(subscribing: [Subscription("A")])
        try server.exchange(&other)
        try server.exchange(&local)
        var newest = [0], created: [(Int, Int64)] = [], nextKey: Int64 = 100
        func create(_ number: Int, in replica: inout Replica<MemoryReplicaStore>) throws {
            nextKey += 1
            created.append((number, nextKey))
            _ = try replica.write(at: 5) { [nextKey] tx in
                // Its class need not have come yet.
                try tx.addClass(classes[number], key: "_id", .int)
                try tx.create(classes[number], key: .int(nextKey))
            }
        }
        for step in steps {
            switch step {
            case .subscribe(let numbers):
                newest = numbers
                try local.subscribe(numbers.map { Subscription(classes[$0]) })
            case .create(let number):
                if !newest.isEmpty { try create(newest[number % newest.count], in: &local) }
            case .exchange: try server.exchange(&local)
            case .lose(let count): try server.exchange(&local, losingAfter: count)
            case .reset: local = try server.reset(local).0
            case .others(let number):
                try create(number, in: &other)
                try server.exchange(&other)
            }
        }
        for _ in 0..<2 { try server.exchange(&local) }
        #expect(server.undone.isEmpty, "\(name)")
        #expect(local.isAcknowledged, "\(name)")
        let latest = local.record.subscriptions?.latest
        #expect(latest?.state == .complete || latest?.version == 0, "\(name): \(String(describing: latest))")
        for (number, className) in classes.enumerated() {
            let keys = created.filter { $0.0 == number }.map(\.1) + [1, 2].map { Int64(10 * number + $0) }
            #expect(try Self.keys(of: className, in: server.state) == Set(keys), "\(name): \(className)")
            let seen = try Self.keys(of: className, in: local.state)
            #expect(seen == Set(newest.contains(number) ? keys : []), "\(name): \(className)")
        }
    }

    private static func keys(of className: String, in state: ObjectGraph) throws -> Set<Int64> {
        try state.read { tx in
            guard tx.classNames.contains(className) else { return [] }
            return Set(try tx.objects(className).compactMap { if case .int(let key)? = $0.key { key } else { nil } })
        }
    }
}
