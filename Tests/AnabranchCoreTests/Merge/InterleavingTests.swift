import Testing

@testable import AnabranchCore

/// `Spec/Transform.md`, section 14.2: the list that two runs become which were inserted at one place.
@Suite struct InterleavingTests {
    /// The text that one side inserts between the brackets of `[]`, a transaction for each text.
    private struct Run {
        var texts: [String]
        var times: [UInt64]
        /// True if each letter is inserted in front of those before it.
        var isBackward = false
    }

    private static let runs: [(name: String, Run, Run, becomes: String)] = [
        ("a transaction each", Run(texts: ["abc"], times: [1]), Run(texts: ["123"], times: [2]), "[abc123]"),
        ("the other one is older", Run(texts: ["abc"], times: [2]), Run(texts: ["123"], times: [1]), "[123abc]"),
        (
            "a transaction a letter, one after the other", Run(texts: ["a", "b", "c"], times: [1, 2, 3]),
            Run(texts: ["1", "2", "3"], times: [4, 5, 6]), "[abc123]"
        ),
        (
            "at the same time", Run(texts: ["a", "b", "c"], times: [1, 3, 5]),
            Run(texts: ["1", "2", "3"], times: [2, 4, 6]), "[a1b2c3]"
        ),
        (
            "one in a pause of the other", Run(texts: ["a", "b", "c"], times: [1, 5, 6]),
            Run(texts: ["1", "2", "3"], times: [2, 3, 4]), "[a123bc]"
        ),
        (
            "both backward, at the same time", Run(texts: ["a", "b", "c"], times: [1, 3, 5], isBackward: true),
            Run(texts: ["1", "2", "3"], times: [2, 4, 6], isBackward: true), "[cba321]"
        ),
        (
            "one backward, at the same time", Run(texts: ["a", "b", "c"], times: [1, 3, 5]),
            Run(texts: ["1", "2", "3"], times: [2, 4, 6], isBackward: true), "[a321bc]"
        ),
    ]

    @Test(arguments: runs.indices)
    func twoRunsAtOnePlaceBecome(_ number: Int) throws {
        let (name, first, second, becomes) = Self.runs[number]
        let (local, incoming) = try Self.merged(first, second)
        #expect(local == becomes, "\(name)")
        #expect(incoming == becomes, "\(name)")
        let exchanged = try Self.merged(second, first)
        #expect(exchanged.0 == becomes, "\(name), with the sides exchanged")
        #expect(exchanged.1 == becomes, "\(name), with the sides exchanged")
    }

    /// The texts on both sides, each with its own run and then the other one as it was merged.
    private static func merged(_ local: Run, _ incoming: Run) throws -> (String, String) {
        var base = ObjectGraph()
        _ = try base.write(as: 1) { tx in
            try tx.addClass("Note", key: "id", .int)
            try tx.addColumn("text", .string, collection: .list, to: "Note")
            let text = try tx.create("Note", key: 1).list("text")
            for bracket in ["[", "]"] as [Payload] { try text.append(bracket) }
        }
        var arena = ChangesetArena(), graphs = [base, base], changesets: [[ChangesetIndex]] = [[], []]
        for (side, run) in [local, incoming].enumerated() {
            // The origin has no say, since no two times are equal.
            let ident = ClientFileID(rawValue: UInt64(side) + 2)
            for (change, time) in zip(try write(run, to: &graphs[side], as: ident), run.times) {
                let tag = OriginTag(timestamp: ChangesetTime(rawValue: time), ident: ident)
                changesets[side].append(try arena.decode(change, version: 2, tag: tag))
            }
        }
        try arena.merge(local: changesets[0], incoming: changesets[1])
        for changeset in changesets[1] { _ = try graphs[0].apply(changeset, of: arena) }
        for changeset in changesets[0] { _ = try graphs[1].apply(changeset, of: arena) }
        return (try text(of: graphs[0]), try text(of: graphs[1]))
    }

    private static func write(_ run: Run, to graph: inout ObjectGraph, as ident: ClientFileID) throws -> [[UInt8]] {
        var index = 1
        return try run.texts.map { letters in
            try graph.write(as: ident) { tx in
                let text = try tx.objects("Note")[0].list("text")
                for letter in letters {
                    try text.insert(.string(Array(String(letter).utf8)), at: index)
                    if !run.isBackward { index += 1 }
                }
            }.changeset
        }
    }

    private static func text(of graph: ObjectGraph) throws -> String {
        try graph.read { tx in
            try tx.objects("Note")[0].list("text").values.map { value in
                guard case .string(let letter) = value else { return "?" }
                return String(decoding: letter, as: UTF8.self)
            }.joined()
        }
    }
}
