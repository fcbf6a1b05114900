import AnabranchCore
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchOverTheAirWire

/// Values, names and numbers of items as no honest device sends them (`Spec/OverTheAirServer.md`, sections 5 and 7).
@Suite(.timeLimit(.minutes(30))) struct LimitTests {
    private static let uri = DeviceRig.notes

    /// Any Realm client can write it.
    @Test func theFirstOfAllTimesIsNoDate() {
        for time in [Timestamp(seconds: .min, nanoseconds: -1), Timestamp(seconds: .max, nanoseconds: 1)] {
            #expect(FieldType.date.told(.timestamp(time)) == nil)
        }
    }

    /// The device would send it again and again, and never get an answer.
    @Test(arguments: ["$a", "a.b", "$\u{301}a", "a.\u{301}b"]) func keysThatNoDictionaryCanHaveAreRefused(key: String) {
        let value: PropertyList = [key: 1]
        #expect(throws: WrongValue.self) { try FieldType.dictionary.read(value) }
        #expect(throws: WrongValue.self) { try FieldType.array.read([value]) }
    }

    // MARK: Arrays of links

    /// The work of `RecordWriter.merged`, one step after the other.
    private static func merged(_ base: [String], _ device: [String], over current: [String]) -> [String] {
        guard current != base, [base, device, current].allSatisfy({ Set($0).count == $0.count }) else { return device }
        var merged = current.filter { device.contains($0) || !base.contains($0) }
        if base.filter(device.contains) != device.filter(base.contains) {
            var ordered = device.filter(merged.contains)[...]
            merged = merged.map { device.contains($0) ? ordered.removeFirst() : $0 }
        }
        for (index, id) in device.enumerated() where !base.contains(id) && !merged.contains(id) {
            let before = device[..<index].last { merged.contains($0) }
            merged.insert(id, at: before.flatMap(merged.firstIndex(of:)).map { $0 + 1 } ?? 0)
        }
        return merged
    }

    @Test func arraysAreMergedStepByStep() {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        let count = environment["ANABRANCH_COUNT"].flatMap(UInt64.init) ?? 20_000
        for seed in first..<first + count {
            var random = SeededRandom(scrambling: seed)
            func links() -> [String] {
                Array((0..<8).map { "\($0)" }.shuffled(using: &random).prefix(random.below(7)))
            }
            let (base, device, current) = (links(), links(), links())
            let found = RecordWriter.merged(base, device, over: current)
            #expect(
                found == Self.merged(base, device, over: current),
                """
                seed \(seed): \(base), \(device) over \(current)
                again: ANABRANCH_SEED=\(seed) ANABRANCH_COUNT=1 scripts/check --filter LimitTests
                """)
        }
    }

    @Test func linksToRecordsThatLookAlikeAreTwo() {
        let (one, two) = ("thing/\u{e9}", "thing/e\u{301}")
        let merged = RecordWriter.merged([one], [two], over: [one, "other"])
        #expect(PropertyList.texts(merged) == .texts([two, "other"]))
    }

    /// A message has room for so many, and others have to be served.
    @Test func longArraysAreMerged() {
        let base = (0..<400_000).map { "\($0)" }, added = (0..<400_000).map { "new \($0)" }
        let merged = RecordWriter.merged(base, Array(base.reversed()) + added, over: ["0"] + base.dropFirst(2))
        #expect(merged == base.dropFirst(2).reversed() + ["0"] + added)
    }

    // MARK: Long records

    /// A record that fits the message in which one device sends it may be longer in the form of another.
    @Test func aRecordMayBeLongerThanAMessage() async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one", .binary), two = Talker(rig, "two", .xml)
            let contact: PropertyList = [
                "entity": "contact", "fields": ["image": .data(Array(repeating: 7, count: 3_300_000))],
            ]
            #expect(try await one.slow(DeviceRig.contacts, "1", ["L1": contact]).codes(3) == [.ok])
            let slow = try await two.slow(DeviceRig.contacts, "1")
            #expect(slow.header.failure == nil && slow.pushed(DeviceRig.contacts).first?.value == contact)
        }
    }

    // MARK: Names

    @Test func namesThatNoRowCanHaveAreRefused() async throws {
        try await DeviceRig.run { rig in
            let note: PropertyList = ["entity": "note", "fields": ["text": "one"]]
            var long = Talker(rig, String(repeating: "d", count: 129))
            let answer = try await long.send(Talker.info)
            #expect(answer.codes(1) == [.limitExceeded])
            // So many bytes, and one more; as the key of a record, or as the device's own name of one.
            var device = Talker(rig)
            func name(_ prefix: String, _ more: Int) -> String {
                prefix + String(repeating: "k", count: LocalIDs.bytesMax - prefix.utf8.count + more)
            }
            let names = [name("note/", 0), name("L", 0), name("note/", 1), name("L", 1)]
            let slow = try await device.slow(
                Self.uri, "1", PropertyListDictionary(names.map { ($0, note) }) { first, _ in first })
            let refusals = try #require(slow.response(3)?.result)
            #expect(refusals.map(\.knownCode) == [.multiStatus, .badValue, .badValue])
            #expect(Set(refusals.compactMap(\.paramKey)) == Set(names[2...]))
            var other = Talker(rig, "other")
            #expect(try await other.slow(Self.uri, "1").pushed(Self.uri).count == 2)
        }
    }

    /// The outcome of each is kept.
    @Test func aMessageOfItemsThatAreAllRefused() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig)
            let items = PropertyListDictionary((0..<5_000).map { ("\($0)", ["entity": "x", "fields": [:]]) }) {
                first, _ in first
            }
            let answer = try await device.slow(Self.uri, "1", items)
            #expect(answer.codes(3).count == 1 + items.count)
        }
    }
}
