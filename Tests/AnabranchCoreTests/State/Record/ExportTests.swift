import AnabranchTesting
import Testing

@testable import AnabranchCore

/// States as lines, and lines as states.
@Suite struct ExportTests {
    private static func lines(of graph: ObjectGraph) throws -> [[UInt8]] {
        var lines: [[UInt8]] = []
        try graph.forEachExportLine { lines.append($0) }
        return lines
    }

    /// - Returns: how many instructions the write has.
    @discardableResult
    private static func take(_ lines: some Sequence<[UInt8]>, into graph: inout ObjectGraph) throws -> Int {
        let written = try graph.write(as: .server) { transaction in
            let parsed = try lines.map { line in try ExportLine(parsing: line) }
            try transaction.add(parsed.compactMap { if case .declaration(let declared) = $0 { declared } else { nil } })
            for case .object(let className, let key, let fields) in parsed {
                _ = try transaction.importObject(className, key, fields)
            }
        }
        var arena = ChangesetArena()
        let index = try arena.decode(written.changeset, version: 1, tag: OriginTag(timestamp: 0, ident: .server))
        return arena.instructions(of: index).count
    }

    /// A world with classes of all kinds, written by several hands.
    private static func randomWorld(_ seed: UInt64) throws -> ObjectGraph {
        var random = SeededRandom(scrambling: seed), graph = ObjectGraph()
        let world = RandomWorld(&random)
        _ = try graph.write(as: 2, RandomWorld.begin)
        for step in 0..<60 {
            // What makes no sense is not written.
            _ = try? graph.write(as: 2) { try world.edit($0, seed: seed &* 1000 &+ UInt64(step)) }
        }
        return graph
    }

    @Test(arguments: 0..<60 as Range<UInt64>)
    func whatIsExportedComesBackAsItWas(_ seed: UInt64) throws {
        for graph in [try QueryWorld.state(seed: seed), try Self.randomWorld(seed)] {
            let lines = try Self.lines(of: graph)
            var random = SeededRandom(scrambling: seed), copy = ObjectGraph(), rest = lines[...]
            // The classes are in the first part.
            var count = graph.exportedClasses.count + 1
            while !rest.isEmpty {
                try Self.take(rest.prefix(count), into: &copy)
                rest = rest.dropFirst(count)
                count = 1 + random.below(5)
            }
            #expect(try Self.lines(of: copy) == lines)
            #expect(try Self.take(lines, into: &copy) == 0, "a second time nothing is written")
        }
    }

    @Test(arguments: 0..<60 as Range<UInt64>)
    func objectsThatAreThereBecomeThoseOfTheLines(_ seed: UInt64) throws {
        let before = try QueryWorld.state(seed: seed), after = try QueryWorld.state(seed: seed + 1)
        let wanted = try Self.lines(of: after)
        var graph = before
        try Self.take(wanted, into: &graph)
        let keys = Set(wanted.map { $0.prefix { $0 != UInt8(ascii: "}") } })
        let found = try Self.lines(of: graph).filter { keys.contains($0.prefix { $0 != UInt8(ascii: "}") }) }
        #expect(found == wanted)
        #expect(try Self.take(wanted, into: &graph) == 0)
    }

    /// Names are bytes: "é" is another one than "e" with an accent after it.
    @Test func keysThatOnlyLookTheSameAreTwo() throws {
        var graph = ObjectGraph(), copy = ObjectGraph()
        _ = try graph.write(as: 2) { transaction in
            try transaction.addClass("Note", key: "_id", .int)
            try transaction.addColumn("counts", .int, collection: .dictionary, to: "Note")
            try transaction.create("Note", key: 1)
        }
        let entries = "\"e\u{301}\":{\"int\":\"1\"},\"\u{e9}\":{\"int\":\"2\"}"
        let line = Array("[\"Note\",{\"int\":\"1\"},{\"counts\":{\"dict\":{\(entries)}}}]".utf8)
        try Self.take([line], into: &graph)
        let lines = try Self.lines(of: graph)
        #expect(lines.last == line)
        try Self.take(lines, into: &copy)
        #expect(try Self.lines(of: copy) == lines)
    }

    /// Null alone cannot be taken out of a set: the set is cleared, and that counts as well.
    @Test(arguments: [[], [.int(1)], [.null], [.null, .int(1)]] as [[Payload]])
    func whatBecomesOfASetIsToldAsWritten(_ elements: [Payload]) throws {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { transaction in
            try transaction.addClass("Note", key: "_id", .int)
            try transaction.addColumn("ranks", .int, isNullable: true, collection: .set, to: "Note")
            try transaction.create("Note", key: 1).set("ranks").formUnion(elements)
        }
        for isFirst in [true, false] {
            let isWritten = try graph.write(as: .server) { transaction in
                try transaction.importObject("Note", ["int": "1"], ["ranks": ["set": []]])
            }.result
            #expect(isWritten == (isFirst && !elements.isEmpty))
        }
        #expect(try graph.read { try $0.object("Note", key: 1)?.set("ranks").count } == 0)
    }

    /// Of the second part of a GlobalKey 32 bits count, and the server goes on after them.
    @Test func theKeyOfALineDoesNotEndTheCount() throws {
        var graph = ObjectGraph()
        let key = try graph.write(as: .server) { transaction in
            try transaction.addClass("Note")
            _ = try transaction.importObject("Note", ["gk": "1-fffffffffffffffe"], [:])
            return try transaction.create("Note").key
        }.result
        #expect(key == .globalKey(GlobalKey(high: 1, low: 0xFFFF_FFFF)))
    }

    @Test func fieldsThatALineDoesNotHaveStay() throws {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { transaction in
            try transaction.addClass("Note", key: "_id", .int)
            try transaction.addColumn("title", .string, isNullable: true, to: "Note")
            try transaction.addColumn("rank", .double, to: "Note")
            try transaction.create("Note", key: 1, ["title": "a", "rank": .double(2)])
        }
        try Self.take([Array(#"["Note",{"int":"1"},{"title":"b"}]"#.utf8)], into: &graph)
        #expect(
            try Self.lines(of: graph).last.map { String(decoding: $0, as: UTF8.self) }
                == #"["Note",{"int":"1"},{"rank":{"double":"4000000000000000"},"title":"b"}]"#)
        // Zero with a sign is another text, and stays one.
        try Self.take([Array(#"["Note",{"int":"2"},{"rank":{"double":"8000000000000000"}}]"#.utf8)], into: &graph)
        #expect(
            try Self.lines(of: graph).last.map { String(decoding: $0, as: UTF8.self) }
                == #"["Note",{"int":"2"},{"rank":{"double":"8000000000000000"},"title":null}]"#)
    }

    @Test(
        arguments: [
            (#"{"a":1"#, nil, "not JSON at byte 6: an object does not end"),
            (#"["Note",{"int":"1"}]"#, nil, #"an object is written ["Class",key,{fields}]"#),
            (#"["Task",{"int":"1"},{}]"#, nil, "there is no class Task"),
            (#"["Note","a",{}]"#, nil, "a key of type String does not fit the class"),
            (#"["Note",{"int":"1"},{"size":null}]"#, "size", "the class Note has no such field"),
            (
                #"["Note",{"int":"1"},{"title":5}]"#, "title",
                #"5 is not a value: write its type, as in {"int":"7"}, except for strings, true, "#
                    + "false and null"
            ),
            (#"["Note",{"int":"1"},{"title":{"int":"5"}}]"#, "title", nil),
        ] as [(String, String?, String?)])
    func aMistakeIsNamedWithItsField(_ line: String, _ field: String?, _ reason: String?) throws {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { transaction in
            try transaction.addClass("Note", key: "_id", .int)
            try transaction.addColumn("title", .string, to: "Note")
        }
        do {
            try Self.take([Array(line.utf8)], into: &graph)
            Issue.record("it was taken")
        } catch let error as LineError {
            #expect(error.field == field && (reason == nil || error.reason == reason), "\(error)")
        } catch let error as ApplyError {
            #expect(LineError(error).field == field, "\(error)")
        }
    }

    @Test func aDecimalHasOneText() throws {
        for text in ["0", "1.2E6", "0E-3", "-1050", "+123456789012345678901234567890E+0", "3.14159E-2", "Inf", "-NaN"] {
            let value = try #require(Decimal128(exactly: text))
            #expect("\(value)" == text)
        }
        for text in [
            "", "1.", "E5", "1E99999", "--1", "0x10", "0E6112", "0E9999", "1E6112", "1E6145", "1E7000", "7E8000",
            "1E10207", "1E-6177", "+10000000000000000000000000000000000E+0",
        ] { #expect(Decimal128(exactly: text) == nil, "\(text)") }
        for text in ["0E6111", "9E6111", "1E-6176", "+9999999999999999999999999999999999E+0"] {
            #expect(Decimal128(exactly: text).map { "\($0)" } == text)
        }
    }

    /// Clients' changesets have them, too: the bits stand beside the text.
    @Test(arguments: [0x3040, 0x5FFE, 0x6000, 0x7000, 0x77FF, 0x7800, 0x7C00, 0x7FFF, 0xF7FF, 0x3041] as [UInt64])
    func everyDecimalIsReadAsItWasWritten(exponentBits: UInt64) throws {
        for low in [0, 1, .max] as [UInt64] {
            for more in [0, 1, 0xFFFF_FFFF_FFFF] as [UInt64] {
                let value = Decimal128(low: low, high: exponentBits << 48 | more)
                let json = try JSONValue(parsing: ExportedValue.value(.decimal(value)).text)
                guard case .decimal(let read) = StateValue(argument: json) else {
                    Issue.record("\(json.encoded)")
                    continue
                }
                #expect(read == value, "\(json.encoded)")
            }
        }
    }
}
