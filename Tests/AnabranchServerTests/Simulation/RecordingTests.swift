import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchSimulation

/// The recordings of worlds (`Spec/Inspector.md`, section 8).
@Suite struct RecordingTests {
    private struct World {
        var head: JSONValue
        var end: JSONValue
        var events: [[JSONValue]]
    }

    private static func lines(of bytes: [UInt8]) throws -> [JSONValue] {
        #expect(bytes.last == UInt8(ascii: "\n"))
        return try bytes.split(separator: UInt8(ascii: "\n")).map { try JSONValue(parsing: Array($0)) }
    }

    private static func world(_ seed: UInt64) throws -> World {
        let (bytes, failure) = try Simulation.recording(of: seed)
        #expect(failure == nil, "anabranch-lab simulate --seed \(seed)")
        var lines = try lines(of: bytes)
        try #require(lines.count > 2)
        let head = lines.removeFirst(), end = lines.removeLast()
        return World(head: head, end: end, events: try lines.map { try #require($0.array) })
    }

    /// Partitions and flexible sync, few clients and many.
    static let seeds: [UInt64] = [1, 2, 3, 4, 5, 7, 26, 1104]

    /// The same seed has the same bytes, and the world is the one that it is without being recorded.
    @Test(arguments: seeds.prefix(4))
    func recordingChangesNothing(seed: UInt64) throws {
        let bytes = try Simulation.recording(of: seed).bytes
        #expect(try Simulation.recording(of: seed).bytes == bytes)
        let alone = try Simulation(seed: seed)
        try alone.run()
        let end = try #require(try Self.lines(of: bytes).last)
        #expect(end["trace"]?.string == String(alone.trace.value, radix: 16))
        #expect(end["marks"]?.object?.compactMapValues { $0.integer.map(Int.init) } == alone.tally.marks)
    }

    /// Time does not go back, nothing arrives that was not sent, versions follow each other, and in the end all clients
    /// of a file have its last version, and in partitions the same state.
    @Test(arguments: seeds)
    func aWorldIsWhole(seed: UInt64) throws {
        let world = try Self.world(seed)
        #expect(world.head["seed"]?.string == "\(seed)" && world.end["passed"] == true)
        #expect(world.end["events"]?.integer == Int64(world.events.count))
        let clients = try #require(world.head["clients"]?.array)
        let files = try clients.map { Int(try #require($0["file"]?.integer)) }
        let isFlexible = world.head["plan"]?.string?.hasPrefix("flexible") == true
        var up = clients.map { _ in 0 }, down = up, versions: [Int: Int64] = [:], time: Int64 = 0
        var same: [Int: (version: Int64, state: String)] = [:]
        for event in world.events {
            let name = try #require(event[1].string), now = try #require(event[0].integer)
            #expect(now >= time)
            time = now
            let number = event.count > 2 ? event[2].integer.map(Int.init) : nil
            switch (name, number) {
            case ("say", let client?): up[client] += 1
            case ("tell", let client?): down[client] += 1
            case ("arrive", let client?): up[client] -= 1
            case ("hear", let client?): down[client] -= 1
            case ("drop", let client?):
                if event[3] == true { up[client] = 0 }
                if event[4] == true { down[client] = 0 }
            case ("connect", let client?), ("disconnect", let client?), ("end", let client?), ("again", let client?),
                ("anew", let client?):
                (up[client], down[client]) = (0, 0)
            case ("version", let file?):
                let version = try #require(event[3].integer)
                #expect(version == versions[file, default: 0] + 1)
                versions[file] = version
            case ("restore", _):
                for (file, version) in event.dropFirst(2).enumerated() { versions[file] = version.integer }
            case ("same", let client?):
                same[client] = (try #require(event[3].integer), try #require(event[4].string))
            default: break
            }
            #expect(up.allSatisfy { $0 >= 0 } && down.allSatisfy { $0 >= 0 }, "\(event)")
        }
        #expect(same.count == clients.count)
        for (client, end) in same { #expect(end.version == versions[files[client], default: 0]) }
        for file in Set(files) where !isFlexible {
            #expect(Set(same.filter { files[$0.key] == file }.map(\.value.state)).count == 1)
        }
    }

    /// Some version of these worlds was changed by merging, and the reason stands there.
    @Test func mergesSayWhatTheyHaveChanged() throws {
        let events = try Self.seeds.prefix(5).flatMap { try Self.world($0).events }
        let merges = events.filter { $0[1] == "version" && $0[7] != .null }
        let effects = merges.flatMap { $0[7]["effects"]?.array ?? [] }
        #expect(merges.count > 10 && effects.count > 10)
        #expect(effects.allSatisfy { $0["rule"]?.string != nil && $0["sentence"]?.string?.isEmpty == false })
        #expect(effects.contains { $0["after"] == .null } && effects.contains { $0["after"] != .null })
    }

    /// However much happens, a recording has an end, and what is left out is said.
    @Test func aRecordingIsBounded() throws {
        var recording = Recording()
        recording.begin("{}")
        let text = Recording.text(String(repeating: "ä", count: 1_000))
        #expect(text.utf8.count < Recording.textBytesMax + 10)
        var count = 0
        while recording.recordsMessages {
            recording.add("ask", ["0", text], at: 1)
            count += 1
        }
        for _ in 0..<2 * count { recording.add("ask", ["0", text], at: 2) }
        let bytes = recording.ended("{}")
        #expect(bytes.count < Recording.bytesMax + 2 * Recording.textBytesMax)
        let names = try Self.lines(of: bytes).compactMap { $0.array?[1].string }
        #expect(names.count { $0 == "silence" } == 1 && names.last == "cut" && names.count == recording.eventCount)
    }
}
