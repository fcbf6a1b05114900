import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchExplain
@testable import AnabranchHistory
@testable import AnabranchSimulation

/// Histories with other names, keys and values: everything that a merge looks at is as it was.
@Suite struct AnonymityTests {
    @Test(arguments: StoreKind.allCases, [Workload.Profile.data, .schema])
    func theSameRulesFire(kind: StoreKind, profile: Workload.Profile) async throws {
        let runs = RandomRuns(RandomRuns.count(4, or: "ANABRANCH_WORKLOADS"))
        var tally = AnonymityTally()
        await runs.each { seed in
            let workload = try Workload(kind, profile, seed: seed)
            try workload.run(steps: 100) { try tally.check($0, seed: seed, hasState: profile == .data) }
        }
        #expect(tally.merged > 50 && tally.effects > 50 || !runs.areMany, "\(tally)")
    }

    @Test func theSameRulesFireInFlexibleSync() async throws {
        let runs = RandomRuns(RandomRuns.count(25, or: "ANABRANCH_WORKLOADS"))
        var tally = AnonymityTally()
        await runs.each { seed in
            let run = try FlexibleRun(seed: seed, in: TestStore(.memory))
            try run.run(steps: 100)
            try tally.check(run.file.file, seed: seed)
        }
        #expect(tally.merged > 25 && tally.effects > 5 || !runs.areMany, "\(tally)")
    }

    /// What comes out is decided by the shape and the seed alone: the values that were replaced once give the same.
    @Test(arguments: 1...60 as ClosedRange<UInt64>)
    func nothingButTheShapeIsTold(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let values = (0..<300).map { _ in Payload.random(using: &random) } + Payload.special
        let first = try Anonymizer(census(values), seed: seed), replaced = values.map { first($0) }
        let direct = try Anonymizer(census(values), seed: 7), again = try Anonymizer(census(replaced), seed: 7)
        for (value, other) in zip(values, replaced) {
            #expect(direct(value).hasSameBits(as: again(other)), "seed \(seed): \(value), \(other)")
            #expect(value.type == other.type)
        }
        #expect(zip(values, replaced).filter { !$0.hasSameBits(as: $1) }.count > 200, "seed \(seed)")
    }

    @Test(arguments: 1...60 as ClosedRange<UInt64>)
    func orderLengthAndKindStay(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let values = (0..<300).map { _ in Payload.random(using: &random) } + Payload.special
        let anonymizer = try Anonymizer(census(values), seed: seed)
        for one in values {
            let shown = anonymizer(one)
            #expect(one.kind == shown.kind, "seed \(seed): \(one), \(shown)")
            for other in values.prefix(60) {
                #expect(one.order(before: other) == shown.order(before: anonymizer(other)), "\(one), \(other)")
            }
        }
    }

    @Test func reservedNamesStay() throws {
        let names = ["_id", "_ida", "_ia", "Zebra", "a"].map { Payload.string(Array($0.utf8)) }
        for seed in 0..<50 as Range<UInt64> {
            let anonymizer = try Anonymizer(census(names), seed: seed)
            #expect(anonymizer(names[0]) == names[0])
            #expect(anonymizer(names[1]) != names[0] && anonymizer(names[2]) != names[0])
        }
    }

    /// A sum that nobody has uploaded stands between what stands for its neighbours; a text that nobody knows is none
    /// of those that are known.
    @Test func whatDoesNotOccurIsNotTold() throws {
        let anonymizer = try Anonymizer(census([.int(100), .int(7000), .string(Array("Anna".utf8))]), seed: 1)
        let (low, high) = (anonymizer(.int(100)), anonymizer(.int(7000)))
        guard case .int(let low) = low, case .int(let high) = high, case .int(let sum) = anonymizer(.int(200)) else {
            Issue.record("numbers stay numbers")
            return
        }
        #expect(low <= sum && sum <= high)
        #expect(anonymizer(.string(Array("Bert é".utf8))).kind == Payload.string(Array("Bert é".utf8)).kind)
        #expect(anonymizer(.string(Array("Bert".utf8))) == .string(Array("aaaa".utf8)))
    }

    @Test func thereIsALimit() throws {
        var census = ValueCensus()
        let found = try code {
            for number in 0..<40 {
                try census.add(.binary([UInt8](repeating: UInt8(number), count: 4 << 20)))
            }
        }
        #expect(found == .tooLarge)
    }

    private func census(_ values: [Payload]) throws -> ValueCensus {
        var census = ValueCensus()
        for value in values { try census.add(value) }
        return census
    }
}

private struct AnonymityTally {
    var merged = 0, exact = 0, effects = 0, objects = 0

    /// - Parameter hasState: False for a file that is only a relay.
    mutating func check(_ file: SyncedFile, seed: UInt64, hasState: Bool = true) throws {
        func check(_ state: ObjectGraph) throws {
            let tally = try file.read { [self] view throws(HistoryError) in
                var tally = self
                do { try tally.check(view, state, seed: seed) } catch let error as HistoryError { throw error } catch {
                    throw HistoryError(.storeFailed, "\(error)")
                }
                return tally
            }
            self = tally
        }
        if hasState { try file.withState(check) } else { try check(ObjectGraph()) }
    }

    private mutating func check(_ view: any FileView, _ state: ObjectGraph, seed: UInt64) throws {
        let anonymizer = try Anonymizer(of: view, state, seed: seed)
        let anonymous = AnonymousView(file: view, anonymizer: anonymizer)
        let head = try view.head()
        for number in head.baseVersion.rawValue..<head.version.rawValue {
            let version = ServerVersion(rawValue: number + 1)
            let (entry, shown) = (try #require(try view.entry(version)), try #require(try anonymous.entry(version)))
            try #require(entry.decimalsAreNone ? entry.changeset.count == shown.changeset.count : true)
            try compare(version, view, anonymous)
            guard let rules = try rules(of: version, in: view) else { continue }
            try #require(try self.rules(of: version, in: anonymous) == rules, "version \(version)")
            merged += 1
            effects += rules.count
        }
        if !state.classes.isEmpty { try compareStates(view, state, anonymizer) }
    }

    /// What is told of a version is what is told of the version with other names. Sums that R7 has made differ.
    private mutating func compare(
        _ version: ServerVersion, _ view: any FileView, _ anonymous: AnonymousView
    ) throws {
        let told: Explanation, known: Explanation, again: Explanation
        do throws(HistoryError) {
            known = try view.explanation(of: version)
            told = try view.explanation(of: version, anonymizedBy: anonymous.anonymizer)
            again = try anonymous.explanation(of: version)
        } catch {
            guard error.code == .badServerVersion else { throw error }
            return
        }
        try #require(told.certainty == known.certainty && told.effects.map(\.rule) == known.effects.map(\.rule))
        try #require(told.instructions.map(\.isRefused) == known.instructions.map(\.isRefused))
        try #require(told.instructions.map { $0.logged == nil } == known.instructions.map { $0.logged == nil })
        try #require(told.effects.map(\.position) == known.effects.map(\.position))
        // A view with other names has none in the entries of generations.
        guard again.certainty == .exact, known.certainty == .exact, try view.generations().isEmpty,
            !known.effects.contains(where: { $0.rule == .R7 })
        else { return }
        try #require(again.instructions.map(\.uploaded.json) == told.instructions.map(\.uploaded.json))
        try #require(again.instructions.map(\.logged?.text) == told.instructions.map(\.logged?.text))
        // What R7 has made of a number before, in the form for this client, is no sum of other numbers.
        let met = [again, told].map { $0.effects.map(\.other.before.text.withoutInts) }
        try #require(met[0] == met[1])
        exact += 1
    }

    /// The rules that fire when a version is merged again, and on what; nil if the log lacks what that needs.
    private func rules(of version: ServerVersion, in view: any FileView) throws -> [String]? {
        guard let entry = try view.entry(version), entry.origin != 0, let base = entry.base else { return nil }
        var replay = try VersionReplay(of: entry, on: base, in: view)
        guard replay.oldestBase >= (try view.head().baseVersion) else { return nil }
        do throws(HistoryError) { try replay.run(seeing: view) } catch {
            guard error.code == .badChangeset else { throw error }
            return nil
        }
        var rules: [String] = []
        for outcome in replay.merge.outcomes {
            let (major, minor) = (outcome.major, outcome.minor)
            rules.append(
                """
                \(outcome.rule) \(replay.merge.version(ofEntry: major.changeset) ?? 0) \(major.position ?? -1) \
                \(major.after == nil) \(major.isAffected) \
                \(minor.position ?? -1) \(minor.after == nil) \(minor.isAffected)
                """)
        }
        return rules.sorted()
    }

    /// The export with other names can be imported, and is that of the history with other names; sums apart.
    private mutating func compareStates(_ view: any FileView, _ state: ObjectGraph, _ anonymizer: Anonymizer) throws {
        let lines = try state.lines { anonymizer($0) }
        var imported = ObjectGraph()
        _ = try imported.write(as: 9) { transaction in
            var classes: [ExportedClass] = [], objects: [ExportLine] = []
            for line in lines {
                switch try ExportLine(parsing: line.utf8) {
                case .header: break
                case .declaration(let declared): classes.append(declared)
                case .object(let name, let key, let fields):
                    objects.append(.object(className: name, key: key, fields: fields))
                }
            }
            try transaction.add(classes)
            for case .object(let name, let key, let fields) in objects {
                _ = try transaction.importObject(name, key, fields)
            }
        }
        try #require(try imported.lines(replacing: nil) == lines)
        objects += lines.count
        guard try view.head().baseVersion == 0 else { return }
        var replayed = ObjectGraph(), entries: [LogEntry] = []
        let range = VersionRange(after: 0, through: try view.head().version)
        if !range.isEmpty { entries = try view.entries(in: range, excludingOrigin: nil, byteBudget: .max) }
        for entry in entries { _ = try replayed.replay([try anonymizer.entry(entry)]) }
        let hasSums = try entries.contains { try $0.hasSums }
        let (one, other) = (try replayed.lines(replacing: nil), lines)
        let (expected, found) = hasSums ? (other.map(\.withoutNumbers), one.map(\.withoutNumbers)) : (other, one)
        try #require(found == expected)
    }
}

extension ObjectGraph {
    fileprivate func lines(replacing replacement: ((Payload) -> Payload)?) throws -> [String] {
        var lines: [String] = []
        try forEachExportLine(replacing: replacement) { lines.append(String(decoding: $0, as: UTF8.self)) }
        return lines
    }
}

extension String {
    /// The text of an instruction, without the numbers in it.
    fileprivate var withoutInts: String { replacing(/Int -?[0-9]+/, with: "Int") }
    /// A line of an export, without its numbers.
    fileprivate var withoutNumbers: String { replacing(/"int":"-?[0-9]+"/, with: "") }
}

extension LogEntry {
    private func instructions() throws -> (ChangesetArena, [Instruction]) {
        var arena = ChangesetArena()
        let index = try decode(into: &arena)
        return (arena, arena.instructions(of: index))
    }

    fileprivate var hasSums: Bool {
        get throws { try instructions().1.contains { $0.kind == .addInteger } }
    }

    fileprivate var decimalsAreNone: Bool {
        get throws { try !instructions().1.contains { $0.type == .decimal } }
    }
}

extension Payload {
    fileprivate static let special: [Payload] = [
        .null, .bool(true), .int(0), .int(.min), .int(.max), .int(-1), .double(0), .double(-0.0), .double(.infinity),
        .double(-.infinity), .double(.nan), .double(.signalingNaN), .float(.nan), .float(-0.0), .float(.infinity),
        .string([]), .binary([]), .string([0xFF, 0x41]), .string(Array("😀é漢".utf8)), .string(Array("😀é漢字".utf8)),
        .timestamp(Timestamp(seconds: 0, nanoseconds: 0)), .timestamp(Timestamp(seconds: 0, nanoseconds: -1)),
        .timestamp(Timestamp(seconds: -5, nanoseconds: -999_999_999)),
    ]

    fileprivate static func random(using random: inout SeededRandom) -> Payload {
        let bytes = (0..<random.below(8)).map { _ in UInt8(random.below(256)) }
        switch random.below(11) {
        case 0: return .int(Int64(bitPattern: random.next()) >> Int64(random.below(64)))
        case 1: return .double(Double(bitPattern: random.next()))
        case 2: return .float(Float(bitPattern: UInt32(truncatingIfNeeded: random.next())))
        case 3: return .string(bytes)
        case 4: return .string(bytes.map { $0 & 3 | 0x60 })
        case 5: return .string(Array(String(bytes.map { Character(UnicodeScalar(UInt32($0) * 37 + 33) ?? "x") }).utf8))
        case 6: return .binary(bytes)
        case 7: return .timestamp(Timestamp(seconds: Int64(random.below(2_000_000_000)), nanoseconds: 1_000_000))
        case 8:
            let exponent = UInt64(6170 + random.below(10))
            return .decimal(
                Decimal128(low: UInt64(random.below(3000)), high: exponent << 49 | UInt64(random.below(2)) << 63))
        case 9: return ObjectID((0..<12).map { _ in UInt8(random.below(3)) }).map(Payload.objectID) ?? .null
        default: return UUIDBytes((0..<16).map { _ in UInt8(random.below(256)) }).map(Payload.uuid) ?? .null
        }
    }

    fileprivate func hasSameBits(as other: Payload) -> Bool {
        switch (self, other) {
        case (.float(let one), .float(let other)): one.bitPattern == other.bitPattern
        case (.double(let one), .double(let other)): one.bitPattern == other.bitPattern
        default: self == other
        }
    }

    /// Everything but the value.
    fileprivate var kind: String {
        func number(_ value: some BinaryFloatingPoint) -> String {
            "\(value.sign) \(value.isNaN) \(value.isSignalingNaN) \(value.isInfinite) \(value.isZero)"
        }
        switch self {
        case .string(let bytes):
            let text = String(validating: bytes, as: UTF8.self)
            return "\(bytes.count) \(text?.utf16.count ?? -1) \(text?.unicodeScalars.count ?? -1)"
        case .binary(let bytes): return "\(bytes.count)"
        case .int(let value): return "\(value.signum()) \(length(value))"
        case .float(let value): return number(value)
        case .double(let value): return number(value)
        case .timestamp(let time):
            return "\(time.seconds.signum()) \(time.nanoseconds.signum()) \(length(Int64(time.nanoseconds)))"
        case .decimal(let value): return "\(value.isNegative) \(value.isNaN) \(value.description.count)"
        default: return "\(type)"
        }
    }

    /// The number of bytes in a changeset.
    private func length(_ value: Int64) -> Int {
        var (rest, count) = (value < 0 ? ~value : value, 1)
        while rest > 63 { (rest, count) = (rest >> 7, count + 1) }
        return count
    }

    /// -1, 0 or 1; nil for values of different types, and numbers that have no order.
    fileprivate func order(before other: Payload) -> Int? {
        func order<Value: Comparable>(_ one: Value, _ other: Value) -> Int { one < other ? -1 : one > other ? 1 : 0 }
        func order(_ one: [UInt8], _ other: [UInt8]) -> Int {
            one == other ? 0 : one.lexicographicallyPrecedes(other) ? -1 : 1
        }
        switch (self, other) {
        case (.string(let one), .string(let other)), (.binary(let one), .binary(let other)): return order(one, other)
        case (.int(let one), .int(let other)): return order(one, other)
        case (.double(let one), .double(let other)): return one.isNaN || other.isNaN ? nil : order(one, other)
        case (.float(let one), .float(let other)): return one.isNaN || other.isNaN ? nil : order(one, other)
        case (.objectID(let one), .objectID(let other)): return order(one.bytes, other.bytes)
        case (.uuid(let one), .uuid(let other)): return order(one.bytes, other.bytes)
        case (.timestamp(let one), .timestamp(let other)):
            return one.seconds == other.seconds
                ? order(one.nanoseconds, other.nanoseconds) : order(one.seconds, other.seconds)
        case (.decimal(let one), .decimal(let other)):
            guard !one.isEqualNumber(to: other) else { return 0 }
            return order(Double("\(one)") ?? 0, Double("\(other)") ?? 0)
        default: return nil
        }
    }
}
