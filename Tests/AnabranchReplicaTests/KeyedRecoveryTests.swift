import AnabranchCore
import AnabranchProtocol
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchReplica

/// The effect of a client reset on sets, dictionaries and fields that were changed offline (`Spec/Replica.md`, section
/// 4): what both sides have done to different keys stays, and of one key what was done here.
@Suite struct KeyedRecoveryTests {
    /// Where values have names. In a set a value is its own name.
    enum Kind: String, CaseIterable, CustomTestStringConvertible {
        case integerSet, linkSet, mixedSet
        case dictionary, linkDictionary, mixedDictionary, embeddedDictionary, inMixed, inList, inEmbedded
        case fields, linkFields, mixedFields, embeddedFields

        var testDescription: String { rawValue }
        var isSet: Bool { [.integerSet, .linkSet, .mixedSet].contains(self) }
        fileprivate var areFields: Bool { [.fields, .linkFields, .mixedFields, .embeddedFields].contains(self) }
        fileprivate var hasLinks: Bool { [.linkSet, .linkDictionary, .linkFields].contains(self) }
        fileprivate var isNested: Bool { self == .inMixed || self == .inList }
        fileprivate var isEmbedded: Bool { self == .embeddedDictionary || self == .embeddedFields }
    }

    enum Step: Hashable {
        case put(Int), erase(Int), clear
        /// The next steps are another transaction.
        case commit
        /// Changes of others are downloaded first.
        case download
        /// The object goes to which the value links.
        case lose(Int)
    }

    typealias Steps = [Step]

    // MARK: One against the other

    /// Keys 1, 2 and 3 have values.
    private static let programs: [Steps] = [
        [], [.put(1)], [.put(4)], [.put(5)], [.erase(1)], [.erase(2)], [.erase(5)], [.clear], [.put(4), .erase(4)],
        [.erase(1), .put(1)], [.erase(1), .commit, .put(1)], [.put(4), .commit, .put(4), .commit, .erase(4)],
        [.clear, .put(1)], [.put(4), .clear, .commit, .put(5)], [.put(1), .put(1)],
    ]

    @Test("each operation, offline, against each other one on the server", arguments: Kind.allCases)
    func pairs(kind: Kind) throws {
        for own in Self.programs {
            for others in Self.programs + (kind.hasLinks ? [[.lose(1)], [.lose(2), .put(4)]] : []) {
                for mode in SyncMode.allCases where mode == .partition || own.count + others.count < 3 {
                    try Self.check(own, others, kind, mode)
                }
            }
        }
    }

    private static func check(
        _ own: Steps, _ others: Steps, _ kind: Kind, _ mode: SyncMode, _ name: String = ""
    ) throws {
        let world = try KeyedWorld(kind, mode)
        try world.run(own, others)
        try world.check("\(name)\(kind), \(mode): \(own) against \(others)")
    }

    // MARK: At random

    private static let environment = ProcessInfo.processInfo.environment

    /// More of them: `ANABRANCH_RECOVERIES=20000 swift test --filter nothingWithANameGoes`.
    @Test("whatever both sides do, nothing goes that one has put there and nobody erased")
    func nothingWithANameGoes() async throws {
        let only = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init)
        let count = Self.environment["ANABRANCH_RECOVERIES"].flatMap(UInt64.init) ?? 200
        for seed in only.map({ $0...$0 }) ?? 1...count {
            let name = "ANABRANCH_SEED=\(seed) swift test --filter nothingWithANameGoes"
            do { try Self.runRandom(seed, name) } catch { Issue.record("\(name): \(error)") }
            await Task.yield()  // all tests share a few threads
        }
    }

    private static func runRandom(_ seed: UInt64, _ name: String) throws {
        var random = SeededRandom(scrambling: seed)
        let kind = random.pick(Kind.allCases), mode = random.pick(SyncMode.allCases)
        func steps(isOwn: Bool) -> Steps {
            (0..<1 + random.below(6)).map { _ in
                switch random.below(10) {
                case 0...3: .put(1 + random.below(6))
                case 4...6: .erase(1 + random.below(6))
                case 7: random.isOne(in: 3) ? .clear : .commit
                case 8: isOwn ? .commit : .lose(1 + random.below(6))
                default: .download
                }
            }
        }
        try check(steps(isOwn: true), steps(isOwn: false), kind, mode, name + ": ")
    }
}

/// Values with names, a client that is offline, and another one that writes meanwhile.
private final class KeyedWorld {
    private let kind: KeyedRecoveryTests.Kind
    private let server: RecoveryServer
    private var other: Replica<MemoryReplicaStore>
    private var local: Replica<MemoryReplicaStore>
    private var fresh: Replica<MemoryReplicaStore>
    /// The values of the keys in the end for those who do their steps alone, and whether they have touched them.
    private var own: [Int: Int64] = [:], others: [Int: Int64] = [:]
    private var ownTouched: Set<Int> = [], othersTouched: Set<Int> = []
    private var lost: Set<Int64> = []
    private var hasDownloaded = false
    private var nextLabel: Int64 = 10

    init(_ kind: KeyedRecoveryTests.Kind, _ mode: SyncMode) throws {
        self.kind = kind
        server = try RecoveryServer(mode) { tx in
            try Self.declare(tx)
            if kind.hasLinks { for label in 1...40 { try tx.create("T", key: .int(1_000 + Int64(label))) } }
        }
        (other, local, fresh) = (try server.replica(), try server.replica(), try server.replica())
        try server.exchange(&other)
        try other.write(at: 2) { tx in for key in 1...3 { try put(Int64(key), for: key, tx) } }
        for key in 1...3 { (own[key], others[key]) = (Int64(key), Int64(key)) }
        try server.exchange(&other)
        try server.exchange(&local)
    }

    private static func declare(_ tx: WriteTransaction) throws {
        try tx.addClass("T", key: "_id", .int)
        try tx.addEmbeddedClass("E")
        try tx.addColumn("n", .int, isNullable: true, to: "E")
        try tx.addColumn("inner", .int, collection: .dictionary, to: "E")
        for (name, type, collection) in [
            ("integerSet", .int, .set), ("mixedSet", .null, .set), ("dictionary", .int, .dictionary),
            ("mixedDictionary", .null, .dictionary), ("any", .null, .single), ("outer", .null, .list),
        ] as [(String, PayloadType, CollectionType)] {
            try tx.addColumn(name, type, collection: collection, to: "T")
        }
        try tx.addLink("linkSet", to: "T", collection: .set, of: "T")
        try tx.addLink("linkDictionary", to: "T", collection: .dictionary, of: "T")
        try tx.addLink("embeddedDictionary", to: "E", collection: .dictionary, of: "T")
        try tx.addLink("one", to: "E", of: "T")
        for key in 1...6 {
            try tx.addColumn("fields\(key)", .int, isNullable: true, to: "T")
            try tx.addColumn("mixedFields\(key)", .null, to: "T")
            try tx.addLink("linkFields\(key)", to: "T", of: "T")
            try tx.addLink("embeddedFields\(key)", to: "E", of: "T")
        }
        let object = try tx.create("T", key: 1)
        object["any"] = .dictionary
        try object.list("outer").append(.dictionary)
        _ = try object.createObject("one")
    }

    // MARK: Places

    private func object(_ tx: WriteTransaction) throws -> DynamicObject { try #require(try tx.object("T", key: 1)) }

    private func dictionary(_ tx: WriteTransaction) throws -> DynamicDictionary {
        let object = try object(tx)
        return switch kind {
        case .inMixed: try object.dictionary("any")
        case .inList: try object.list("outer").dictionary(at: 0)
        case .inEmbedded: try #require(try object.object("one")).dictionary("inner")
        default: try object.dictionary(kind.rawValue)
        }
    }

    private func payload(_ label: Int64) -> Payload {
        kind.hasLinks ? .link(className: Array("T".utf8), key: .int(1_000 + label)) : .int(label)
    }

    private func put(_ label: Int64, for key: Int, _ tx: WriteTransaction) throws {
        if kind.isSet { return try object(tx).set(kind.rawValue).insert(payload(label)) }
        guard kind.areFields else {
            let dictionary = try dictionary(tx)
            guard kind.isEmbedded else { return try dictionary.set(payload(label), for: "k\(key)") }
            try dictionary.set(.objectValue, for: "k\(key)")
            try #require(try dictionary.object(for: "k\(key)")).set("n", to: .int(label))
            return
        }
        let field = "\(kind.rawValue)\(key)"
        guard kind.isEmbedded else { return try object(tx).set(field, to: payload(label)) }
        try object(tx).createObject(field).set("n", to: .int(label))
    }

    private func erase(_ key: Int, _ tx: WriteTransaction) throws {
        if kind.isSet { return try object(tx).set(kind.rawValue).remove(payload(Int64(key))) }
        if kind.areFields { return try object(tx).set("\(kind.rawValue)\(key)", to: .null) }
        try dictionary(tx).remove("k\(key)")
    }

    private func clear(_ tx: WriteTransaction) throws {
        if kind.isSet { return try object(tx).set(kind.rawValue).removeAll() }
        guard kind.areFields else { return try dictionary(tx).removeAll() }
        for key in 1...6 { try erase(key, tx) }
    }

    /// The values of the keys; null is nothing.
    private func contents(_ state: ObjectGraph) throws -> [Int: Int64] {
        try state.read { tx in
            var found: [Int: Int64] = [:]
            for key in 1...6 { found[key] = try label(of: key, tx) }
            return found
        }
    }

    private func label(of key: Int, _ tx: WriteTransaction) throws -> Int64? {
        if kind.isSet { return try object(tx).set(kind.rawValue).contains(payload(Int64(key))) ? Int64(key) : nil }
        return switch (kind.areFields, kind.isEmbedded) {
        case (true, true): try object(tx).object("\(kind.rawValue)\(key)").flatMap { label($0["n"]) }
        case (true, false): label(try object(tx).value("\(kind.rawValue)\(key)"))
        case (false, true): try dictionary(tx).object(for: "k\(key)").flatMap { label($0["n"]) }
        case (false, false): try dictionary(tx).value(for: "k\(key)").flatMap(label)
        }
    }

    private func label(_ value: Payload) -> Int64? {
        switch value {
        case .int(let label): label
        case .link(_, .int(let key)): key - 1_000
        default: nil
        }
    }

    // MARK: Steps

    /// The steps offline, those of others meanwhile, and the reset.
    func run(_ own: [KeyedRecoveryTests.Step], _ others: [KeyedRecoveryTests.Step]) throws {
        let pause = others.count / 2
        try perform(Array(others[..<pause]), isOwn: false)
        try perform(own, isOwn: true)
        try perform(Array(others[pause...]), isOwn: false)
        try server.exchange(&other)
        fresh = try server.reset(local).0
    }

    private func perform(_ steps: [KeyedRecoveryTests.Step], isOwn: Bool) throws {
        for part in steps.split(separator: .commit) {
            if part.contains(.download) {
                try server.exchange(&other)
                if isOwn {
                    hasDownloaded = true
                    try server.download(&local)
                }
            }
            func write(_ tx: WriteTransaction) throws { for step in part { try perform(step, isOwn, tx) } }
            _ = isOwn ? try local.write(at: 10, write) : try other.write(at: 10, write)
        }
    }

    private func perform(_ step: KeyedRecoveryTests.Step, _ isOwn: Bool, _ tx: WriteTransaction) throws {
        switch step {
        case .put(let key):
            nextLabel += 1
            let label = kind.isSet ? Int64(key) : nextLabel
            // Nobody links to what he knows to be gone.
            if kind.hasLinks, try tx.object("T", key: .int(1_000 + label)) == nil { return }
            // What changes nothing is not recorded.
            if try !kind.isSet || self.label(of: key, tx) == nil { record(key, label, isOwn) }
            try put(label, for: key, tx)
        case .erase(let key):
            if try kind.areFields || self.label(of: key, tx) != nil { record(key, nil, isOwn) }
            try erase(key, tx)
        case .clear:
            let isEmpty = try (1...6).allSatisfy { try self.label(of: $0, tx) == nil }
            if !isEmpty || kind.areFields || kind.isNested { for key in 1...6 { record(key, nil, isOwn) } }
            try clear(tx)
        case .lose(let key):
            guard kind.hasLinks, let label = try label(of: key, tx),
                let object = try tx.object("T", key: .int(1_000 + label))
            else { return }
            lost.insert(label)
            try tx.delete(object)
        case .commit, .download: break
        }
    }

    private func record(_ key: Int, _ label: Int64?, _ isOwn: Bool) {
        if isOwn {
            own[key] = label
            ownTouched.insert(key)
        } else {
            others[key] = label
            othersTouched.insert(key)
        }
    }

    /// All replicas end alike.
    func check(_ what: String) throws {
        #expect(try fresh.danglingUploads() == [], "\(what)")
        let found = try contents(fresh.state)
        for key in 1...6 {
            var allowed = [ownTouched.contains(key) ? own[key] : others[key]]
            // What both have written was merged when it was downloaded.
            if hasDownloaded, ownTouched.contains(key), othersTouched.contains(key) { allowed.append(others[key]) }
            allowed = allowed.map { label in label.flatMap { lost.contains($0) ? nil : $0 } }
            #expect(allowed.contains(found[key]), "\(what): key \(key) has \(found), expected \(allowed)")
        }
        try server.exchange(&fresh)
        try server.exchange(&other)
        #expect(try contents(fresh.state) == contents(other.state), "\(what)")
    }
}
