import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchReplica

/// The effect of a client reset on lists that were changed offline (`Spec/Replica.md`, section 4).
@Suite struct ListRecoveryTests {
    /// Where a list is. Its elements are told apart by numbers.
    enum Kind: String, CaseIterable, CustomTestStringConvertible {
        case integers, links, mixed, embedded, inEmbedded, inMixed, inDictionary, inList, inListOfEmbedded

        var testDescription: String { rawValue }

        func list(_ tx: WriteTransaction) throws -> DynamicList {
            let object = try #require(try tx.object("T", key: 1))
            return switch self {
            case .integers: try object.list("integers")
            case .links: try object.list("links")
            case .mixed: try object.list("mixed")
            case .embedded: try object.list("embedded")
            case .inEmbedded: try #require(try object.object("one")).list("inner")
            case .inMixed: try object.list("any")
            case .inDictionary: try object.dictionary("dictionary").list(for: "k")
            case .inList: try object.list("outer").list(at: try object.list("outer").count - 1)
            case .inListOfEmbedded:
                try object.list("holders").object(at: try object.list("holders").count - 1).list("inner")
            }
        }

        /// The list that this one is in moves it one place up.
        func shift(_ tx: WriteTransaction) throws {
            let object = try #require(try tx.object("T", key: 1))
            switch self {
            case .inList: try object.list("outer").insert(0, at: 0)
            case .inListOfEmbedded: try object.list("holders").insertObject(at: 0)
            default: break
            }
        }

        func insert(_ label: Int64, at index: Int, _ tx: WriteTransaction) throws {
            let list = try list(tx)
            if self == .embedded { return try list.insertObject(at: index).set("n", to: .int(label)) }
            try list.insert(payload(label), at: index)
        }

        func set(_ label: Int64, at index: Int, _ tx: WriteTransaction) throws {
            let list = try list(tx)
            if self == .embedded { return try list.object(at: index).set("n", to: .int(label)) }
            try list.set(payload(label), at: index)
        }

        private func payload(_ label: Int64) -> Payload {
            self == .links ? .link(className: Array("T".utf8), key: .int(1_000 + label)) : .int(label)
        }

        func labels(_ state: ObjectGraph) throws -> [Int64] {
            try state.read { tx in
                let list = try list(tx)
                return try (0..<list.count).map { index in
                    let value = self == .embedded ? try list.object(at: index)["n"] : try list.value(at: index)
                    return switch value {
                    case .int(let label): label
                    case .link(_, .int(let key)): key - 1_000
                    default: -1
                    }
                }
            }
        }
    }

    enum Step: Hashable {
        case insert(Int), append, set(Int), erase(Int), move(Int, Int), clear
        /// The next steps are another transaction.
        case commit
        /// Changes of others are downloaded first.
        case download
        /// See `Kind.shift`.
        case shift
        /// The object goes to which the element links.
        case lose(Int)
    }

    typealias Steps = [Step]

    // MARK: One against the other

    /// Lists of 1, 2, 3.
    private static let programs: [Steps] = [
        [], [.insert(0)], [.insert(1)], [.append], [.set(0)], [.set(1)], [.set(2)], [.erase(0)], [.erase(1)],
        [.erase(2)],
        [.move(0, 2)], [.move(2, 0)], [.move(0, 1)], [.clear], [.insert(0), .commit, .insert(0)],
        [.insert(1), .commit, .set(1)], [.insert(0), .append, .move(0, 4), .append, .erase(4)],
        [.shift], [.erase(2), .erase(1), .erase(0)], [.insert(1), .erase(1)],
        [.append, .commit, .erase(0), .commit, .insert(1)],
    ]

    @Test("each list operation, offline, against each other one on the server", arguments: Kind.allCases)
    func pairs(kind: Kind) throws {
        for own in Self.programs {
            for others in Self.programs { try Self.check(own, others, kind, .partition, count: 3) }
        }
    }

    @Test("the same in flexible sync, one by one", arguments: Kind.allCases)
    func flexiblePairs(kind: Kind) throws {
        let single = Self.programs.filter { $0.count == 1 }
        for own in single { for others in single { try Self.check(own, others, kind, .flexible, count: 3) } }
    }

    private static func check(
        _ own: Steps, _ others: Steps, _ kind: Kind, _ mode: SyncMode, count: Int, _ name: String = ""
    ) throws {
        let world = try World(kind, count: count, mode)
        try world.run(own, others)
        try world.check("\(name)\(kind), \(mode): \(own) against \(others)")
    }

    @Test(
        "what the elements of a list become, in their order", arguments: [Kind.integers, .mixed, .inMixed, .inEmbedded])
    func order(kind: Kind) throws {
        // Own elements are 11, 12, …, those of others 21, 22, ….
        let cases: [(own: Steps, others: Steps, result: [Int64])] = [
            ([.insert(1)], [.append], [1, 11, 2, 3, 21]),
            ([.insert(0), .commit, .insert(0)], [.insert(0)], [12, 11, 21, 1, 2, 3]),
            ([.append, .insert(3)], [.clear], [11, 12]),
            ([.insert(1), .commit, .set(1)], [.insert(0)], [21, 12, 1, 2, 3]),
            ([.insert(0), .append, .move(0, 4)], [.insert(0)], [21, 1, 2, 3, 12, 11]),
            ([.append], [.append], [1, 2, 3, 21, 11]),
            ([.clear, .append], [], [11]),
            ([.erase(0)], [.append], [2, 3, 21]),
            ([.erase(2)], [.append], [1, 2, 21]),
            ([.erase(0)], [.insert(0)], [21, 2, 3]),
            ([.erase(1)], [.erase(1)], [1, 3]),
            ([.set(1)], [.append], [1, 11, 3, 21]),
            ([.move(0, 2)], [.append], [2, 3, 21, 1]),
            ([.move(2, 0)], [.append], [3, 1, 2, 21]),
        ]
        for (own, others, result) in cases {
            let world = try World(kind, count: 3)
            try world.run(own, others)
            #expect(try kind.labels(world.fresh.state) == result, "\(own) against \(others)")
        }
        let world = try World(kind, count: 0)
        try world.run([.append], [.append, .append])
        #expect(try kind.labels(world.fresh.state) == [21, 22, 11])
    }

    private static let environment = ProcessInfo.processInfo.environment

    /// More of them: `ANABRANCH_RECOVERIES=20000 swift test --filter nothingGoesThatNobodyHasErased`.
    @Test("whatever both sides do, nothing goes that one has added and nobody erased")
    func nothingGoesThatNobodyHasErased() async throws {
        let only = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init)
        let count = Self.environment["ANABRANCH_RECOVERIES"].flatMap(UInt64.init) ?? 300
        for seed in only.map({ $0...$0 }) ?? 1...count {
            do { try Self.runRandom(seed) } catch { Issue.record("\(Self.repeating(seed)): \(error)") }
            await Task.yield()  // all tests share a few threads
        }
    }

    private static func repeating(_ seed: UInt64) -> String {
        "ANABRANCH_SEED=\(seed) swift test --filter nothingGoesThatNobodyHasErased"
    }

    private static func runRandom(_ seed: UInt64) throws {
        var random = SeededRandom(scrambling: seed)
        let kind = random.pick(Kind.allCases), mode = random.pick(SyncMode.allCases), count = random.below(6)
        func steps(isOwn: Bool) -> Steps {
            (0..<1 + random.below(6)).map { _ in
                switch random.below(9) {
                case 0, 1: .insert(random.below(6))
                case 2: .append
                // An embedded object that both sides have changed is found by its place alone.
                case 3: isOwn && kind == .embedded ? .append : .set(random.below(6))
                case 4: .erase(random.below(6))
                case 5: .move(random.below(6), random.below(6))
                case 6: .commit
                // So is a list, whose elements others may have changed as well.
                case 7: isOwn ? .shift : .lose(random.below(6))
                // What merges make of moves, and of what is inside of elements, diverges (`Spec/Transform.md`, N6).
                default: isOwn && kind != .embedded ? .download : .commit
                }
            }
        }
        let own = steps(isOwn: true), others = steps(isOwn: false)
        try check(own, others, kind, mode, count: count, repeating(seed) + ": ")
    }

    // MARK: Bytes

    @Test(
        "one element of 2,000 that was set, erased, moved or inserted costs tens of bytes", arguments: Kind.allCases)
    func bytes(kind: Kind) throws {
        for step in [Step.set(700), .erase(700), .insert(700), .move(700, 900)] {
            let world = try World(kind, count: 2_000)
            try world.run([step], [.append])
            let bytes = world.fresh.log.versions.map(\.bytes).reduce(0, +)
            #expect(0 < bytes && bytes <= 100, "\(step): \(bytes) bytes")
        }
    }
}

/// A list, a client that is offline, and another one that writes meanwhile.
private final class World {
    let kind: ListRecoveryTests.Kind
    private let server: RecoveryServer
    private var other: Replica<MemoryReplicaStore>
    private var local: Replica<MemoryReplicaStore>
    private(set) var fresh: Replica<MemoryReplicaStore>
    /// The elements that somebody has put there, and those that somebody has taken away or replaced.
    private var put: Set<Int64> = [], gone: Set<Int64> = []
    /// A list that is cleared loses what others have added at the same time, as far as both are merged.
    private var isClearedHere = false, isClearedByOthers = false, hasDownloaded = false

    init(_ kind: ListRecoveryTests.Kind, count: Int, _ mode: SyncMode = .partition) throws {
        self.kind = kind
        server = try RecoveryServer(mode) { tx in
            try Self.declare(tx)
            if kind == .links {
                for label in 1...max(40, count) { try tx.create("T", key: .int(Int64(1_000 + label))) }
            }
            for index in 0..<count { try kind.insert(Int64(index + 1), at: index, tx) }
        }
        (other, local, fresh) = (try server.replica(), try server.replica(), try server.replica())
        put = Set((0..<count).map { Int64($0 + 1) })
        try server.exchange(&other)
        try server.exchange(&local)
    }

    private static func declare(_ tx: WriteTransaction) throws {
        try tx.addClass("T", key: "_id", .int)
        try tx.addEmbeddedClass("E")
        try tx.addColumn("n", .int, isNullable: true, to: "E")
        try tx.addColumn("inner", .int, collection: .list, to: "E")
        try tx.addColumn("integers", .int, collection: .list, to: "T")
        try tx.addColumn("mixed", .null, collection: .list, to: "T")
        try tx.addColumn("outer", .null, collection: .list, to: "T")
        try tx.addColumn("any", .null, to: "T")
        try tx.addColumn("dictionary", .null, collection: .dictionary, to: "T")
        try tx.addLink("links", to: "T", collection: .list, of: "T")
        try tx.addLink("embedded", to: "E", collection: .list, of: "T")
        try tx.addLink("holders", to: "E", collection: .list, of: "T")
        try tx.addLink("one", to: "E", of: "T")
        let object = try tx.create("T", key: 1)
        _ = try object.createObject("one")
        object["any"] = .list
        try object.dictionary("dictionary").set(.list, for: "k")
        try object.list("outer").append(.list)
        try object.list("holders").appendObject()
    }

    /// The steps offline, those of others meanwhile, and the reset.
    func run(_ own: [ListRecoveryTests.Step], _ others: [ListRecoveryTests.Step]) throws {
        let pause = others.count / 2
        try perform(Array(others[..<pause]), of: &other, from: Self.othersBase)
        try perform(own, of: &local, from: Self.ownBase)
        try perform(Array(others[pause...]), of: &other, from: Self.othersBase)
        try server.exchange(&other)
        fresh = try server.reset(local).0
    }

    private static let ownBase: Int64 = 10, othersBase: Int64 = 20
    private var labels: [Int64: Int64] = [:]

    private func perform(
        _ steps: [ListRecoveryTests.Step], of replica: inout Replica<MemoryReplicaStore>, from base: Int64
    ) throws {
        for part in steps.split(separator: .commit) {
            if part.contains(.download) {
                try server.exchange(&other)
                try server.download(&replica)
                hasDownloaded = true
            }
            try replica.write(at: 10) { tx in
                for step in part { try perform(step, base, tx) }
            }
        }
    }

    private func perform(_ step: ListRecoveryTests.Step, _ base: Int64, _ tx: WriteTransaction) throws {
        let list = try kind.list(tx), count = try list.count
        func label(_ index: Int) throws -> Int64 {
            let value = kind == .embedded ? try list.object(at: index)["n"] : try list.value(at: index)
            if case .link(_, .int(let key)) = value { return key - 1_000 }
            if case .int(let label) = value { return label }
            return -1
        }
        func next() -> Int64 {
            labels[base, default: base] += 1
            let label = labels[base, default: base]
            put.insert(label)
            return label
        }
        switch step {
        case .insert(let index): try kind.insert(next(), at: min(index, count), tx)
        case .append: try kind.insert(next(), at: count, tx)
        case .set(let index) where index < count:
            gone.insert(try label(index))
            let new = next()
            // It may be about an element that is gone.
            gone.insert(new)
            try kind.set(new, at: index, tx)
        case .erase(let index) where index < count:
            gone.insert(try label(index))
            try list.remove(at: index)
        case .move(let from, let to) where from < count && to < count: try list.move(from: from, to: to)
        case .shift: try kind.shift(tx)
        case .lose(let index) where kind == .links && index < count:
            let lost = try label(index)
            gone.insert(lost)
            if let object = try tx.object("T", key: .int(1_000 + lost)) { try tx.delete(object) }
        case .clear:
            for index in 0..<count { gone.insert(try label(index)) }
            if base == Self.ownBase { isClearedHere = true } else { isClearedByOthers = true }
            try list.removeAll()
        default: break
        }
    }

    /// All replicas end alike, with everything that was put and is not gone, once.
    func check(_ what: String) throws {
        #expect(try fresh.danglingUploads() == [], "\(what)")
        let result = try kind.labels(fresh.state)
        #expect(Set(result).count == result.count, "\(what): \(result)")
        let expected = put.subtracting(gone)
        if !isClearedHere, !isClearedByOthers || !hasDownloaded {
            #expect(expected.subtracting(result) == [], "\(what): \(result)")
        }
        #expect(!result.contains(-1), "\(what): \(result)")
        try server.exchange(&fresh)
        try server.exchange(&other)
        #expect(try kind.labels(fresh.state) == kind.labels(other.state), "\(what)")
    }
}
