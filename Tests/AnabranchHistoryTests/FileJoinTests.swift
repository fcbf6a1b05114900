import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Files of one partition become one (`Spec/Protocol.md`, section 4.2).
@Suite struct FileJoinTests {
    private static let kept = VirtualPath(app: "a", partition: 42), other = VirtualPath("a/42")

    private struct Pair {
        let test: TestStore
        var target: SyncedFile
        var source: SyncedFile

        init(_ kind: StoreKind) throws {
            test = try TestStore(kind)
            target = try SyncedFile(path: kept, store: test.store)
            source = try SyncedFile(path: other, store: test.store)
            for file in [target, source] { try file.write(at: 1, Self.addClasses) }
        }

        static func addClasses(_ transaction: WriteTransaction) throws {
            try transaction.addClass("T", key: "_id", .int)
            try transaction.addColumn("n", .int, to: "T")
            try transaction.addColumn("m", .int, to: "T")
            try transaction.addColumn("l", .int, collection: .list, to: "T")
            try transaction.addColumn("s", .int, collection: .set, to: "T")
            try transaction.addClass("G")
            try transaction.addColumn("n", .int, to: "G")
            try transaction.addLink("to", to: "G", of: "G")
        }

        mutating func join() throws -> FileJoin.Report {
            let catalog = try #require(test.store as? any HistoryStore & HistoryCatalog)
            let report = try FileJoin(of: other, into: kept, in: catalog).run(at: 9)
            #expect(try catalog.file(other) == nil)
            try test.verify()
            try test.restart(isClosed: true)
            target = try SyncedFile(path: kept, store: test.store)
            return report
        }

        /// The objects as lines.
        func lines() throws -> [String] {
            var lines: [String] = []
            try target.withState { state in
                try state.forEachExportLine { lines.append(String(decoding: $0, as: UTF8.self)) }
            }
            return lines.filter { $0.hasPrefix("[") }
        }
    }

    private static func object(_ key: Int64, _ fields: [String: Int64], list: [Int64] = [])
        -> (WriteTransaction) throws -> Void
    {
        { transaction in
            let object = try transaction.create("T", key: .int(key))
            for (field, value) in fields { object[field] = .int(value) }
            for value in list { try object.list("l").append(.int(value)) }
        }
    }

    @Test(arguments: StoreKind.allCases) func objectsAndElementsOfBothStayAndTheNewerValueWins(kind: StoreKind) throws {
        var pair = try Pair(kind)
        try pair.target.write(at: 10, Self.object(1, ["n": 1, "m": 7], list: [1, 2]))
        try pair.source.write(at: 20, Self.object(1, ["n": 100, "m": 0], list: [8]))
        try pair.target.write(at: 30, Self.object(1, ["n": 5]))
        try pair.source.write(at: 40, Self.object(3, ["n": 3]))
        #expect(try pair.join() == FileJoin.Report(objectCount: 2, restoredCount: 0))
        #expect(
            try pair.lines() == [
                """
                ["T",{"int":"1"},{"l":{"list":[{"int":"1"},{"int":"2"},{"int":"8"}]},"m":{"int":"0"},"n":{"int":"5"},\
                "s":{"set":[]}}]
                """,
                #"["T",{"int":"3"},{"l":{"list":[]},"m":{"int":"0"},"n":{"int":"3"},"s":{"set":[]}}]"#,
            ])
    }

    @Test(arguments: StoreKind.allCases) func whatTheOtherFileHasErasedOrClearedIsThereAgain(kind: StoreKind) throws {
        var pair = try Pair(kind)
        for key in [1, 2, 3] as [Int64] { try pair.source.write(at: 50, Self.object(key, ["n": 9], list: [1, 2])) }
        for key in [1, 2, 3] as [Int64] { try pair.target.write(at: 10, Self.object(key, ["n": 100], list: [5])) }
        try pair.target.write(at: 60) { transaction in
            for key in [1, 2] as [PrimaryKey] { try transaction.object("T", key: key).map(transaction.delete) }
            try transaction.object("T", key: 3)?.list("l").removeAll()
        }
        try pair.target.write(at: 70, Self.object(2, ["m": 4], list: [6]))
        #expect(try pair.join() == FileJoin.Report(objectCount: 3, restoredCount: 1))
        let elements = [[1, 2], [1, 2, 6], [1, 2]].map { list in
            list.map { #"{"int":"\#($0)"}"# }.joined(separator: ",")
        }
        let lines = try pair.lines()
        for (key, number) in [(1, 0), (2, 4), (3, 0)] {
            #expect(
                lines[key - 1] == """
                    ["T",{"int":"\(key)"},{"l":{"list":[\(elements[key - 1])]},"m":{"int":"\(number)"},\
                    "n":{"int":"9"},"s":{"set":[]}}]
                    """)
        }
        #expect(lines.count == 3)
    }

    @Test(arguments: StoreKind.allCases) func objectsWithoutPrimaryKeysStayDifferent(kind: StoreKind) throws {
        var pair = try Pair(kind)
        for (file, number) in [(pair.target, 10), (pair.source, 20)] as [(SyncedFile, Int64)] {
            try file.write(at: 10) { transaction in
                let first = try transaction.create("G"), second = try transaction.create("G")
                (first["n"], second["n"]) = (.int(number), .int(number + 1))
                first["to"] = second.link
            }
        }
        _ = try pair.join()
        let found = try pair.target.withState { state in
            try state.read { transaction in
                try transaction.objects("G").map { object -> [Payload] in
                    guard case .link(_, let key) = object["to"] else { return [object["n"], .null] }
                    return [object["n"], try transaction.object("G", key: key)?["n"] ?? .null]
                }
            }
        }
        #expect(Set(found) == [[10, 11], [11, .null], [20, 21], [21, .null]])
    }

    @Test(arguments: StoreKind.allCases) func nothingComesTwice(kind: StoreKind) throws {
        var pair = try Pair(kind)
        try pair.target.write(at: 10, Self.object(1, ["n": 1], list: [1]))
        try pair.source.write(at: 20, Self.object(1, ["n": 2], list: [2]))
        let catalog = try #require(pair.test.store as? any HistoryStore & HistoryCatalog)
        var versions: [ServerVersion] = []
        // The file was not deleted yet: the process has ended.
        for _ in 0..<3 {
            try FileJoin(of: Self.other, into: Self.kept, in: catalog).upload(at: 9)
            versions.append(try #require(try catalog.file(Self.kept)).head.version)
        }
        #expect(Set(versions).count == 1)
        _ = try pair.join()
        #expect(
            try pair.lines().first?.contains(#"{"list":[{"int":"1"},{"int":"2"}]},"m":{"int":"0"},"n":{"int":"2"}"#)
                == true)
        #expect(try pair.target.clientFile(2)?.isExpired == true && pair.target.head.clientFileCount == 1)
    }

    @Test(arguments: StoreKind.allCases) func logsWithoutBeginningAreJoined(kind: StoreKind) throws {
        var pair = try Pair(kind)
        try pair.target.write(at: 10, Self.object(1, ["n": 1], list: [1]))
        try pair.source.write(at: 20, Self.object(1, ["n": 2], list: [2]))
        try pair.source.write(at: 20, Self.object(2, ["n": 2]))
        for file in [pair.target, pair.source] {
            let generation = try file.makeGeneration(endingAt: 1)
            try file.trim(upTo: file.floor(upTo: generation.version))
            #expect(file.head.baseVersion > 0)
        }
        try pair.source.write(at: 30, Self.object(1, ["m": 3], list: [3]))
        _ = try pair.join()
        let lines = try pair.lines()
        #expect(lines.count == 2)
        #expect(lines.first?.contains(#""m":{"int":"3"}"#) == true)
        for element in 1...3 { #expect(lines.first?.contains(#"{"int":"\#(element)"}"#) == true) }
    }

    @Test func classesThatDoNotFitAreRefusedAndBothFilesStay() throws {
        let pair = try Pair(.memory)
        try pair.source.write(at: 10) { try $0.addColumn("x", .int, to: "T") }
        try pair.target.write(at: 10) { try $0.addColumn("x", .string, to: "T") }
        let version = pair.target.version
        let catalog = try #require(pair.test.store as? any HistoryStore & HistoryCatalog)
        #expect(throws: HistoryError.self) {
            _ = try FileJoin(of: Self.other, into: Self.kept, in: catalog).run(at: 9)
        }
        #expect(try catalog.file(Self.other) != nil)
        #expect(try catalog.file(Self.kept)?.head.version == version)
    }

    /// An object is there if one of the files has it; a field has the newest value that was written in a file that has
    /// the object, and a set all elements of both.
    @Test func randomFilesLoseNothing() throws {
        for seed in 0..<200 as Range<UInt64> {
            var random = SeededRandom(scrambling: seed), pair = try Pair(.memory)
            var models: [[Int64: [String: (time: Int, value: Int64)]]] = [[:], [:]]
            for time in 10..<40 {
                let file = random.below(2), key = Int64(random.below(3)), value = Int64(random.below(4))
                let field = random.pick(["n", "m"]), isErased = random.isOne(in: 5)
                try [pair.target, pair.source][file].write(at: ChangesetTime(UInt64(time))) { transaction in
                    if isErased {
                        try transaction.object("T", key: .int(key)).map(transaction.delete)
                    } else {
                        let object = try transaction.create("T", key: .int(key))
                        object[field] = .int(value)
                        try object.set("s").insert(.int(Int64(time)))
                    }
                }
                if isErased {
                    models[file][key] = nil
                } else {
                    models[file][key, default: [:]][field] = (time, value)
                    models[file][key]?["s\(time)"] = (time, 0)
                }
            }
            _ = try pair.join()
            var lines: [String] = []
            for key in 0..<3 as Range<Int64> where models.contains(where: { $0[key] != nil }) {
                let both = models.compactMap { $0[key] }
                let newest = { (field: String) in
                    both.compactMap { $0[field] }.max { $0.time < $1.time }?.value ?? 0
                }
                let set = Set(both.flatMap(\.keys)).filter { $0.hasPrefix("s") }
                    .map { "{\"int\":\"\($0.dropFirst())\"}" }.sorted().joined(separator: ",")
                lines.append(
                    """
                    ["T",{"int":"\(key)"},{"l":{"list":[]},"m":{"int":"\(newest("m"))"},"n":{"int":"\(newest("n"))"},\
                    "s":{"set":[\(set)]}}]
                    """)
            }
            #expect(try pair.lines() == lines, "seed \(seed)")
        }
    }
}
