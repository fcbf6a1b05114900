import AnabranchCore
import Foundation
import Testing

@testable import AnabranchTesting
@testable import anabranch_lab

/// The benchmark cases come out of the merge as they come out of the reference's.
@Suite struct MergeDigestTests {
    /// The rows of `Tests/Vectors/digests.tsv`: the reference's digests by case.
    private static func recorded() throws -> [String: String] {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let text = try String(contentsOf: tests.appendingPathComponent("Vectors/digests.tsv"), encoding: .utf8)
        let rows = text.split(separator: "\n").filter { !$0.hasPrefix("#") }.map { $0.split(separator: "\t") }
        return Dictionary(uniqueKeysWithValues: rows.map { (String($0[0]), String($0[1])) })
    }

    /// Those with up to 1,000 operations a side or 400 classes; `anabranch-lab bench merge` does all of them.
    private static var smallCases: [BenchmarkCase] {
        BenchmarkCase.all(seed: 0, large: false).filter { !$0.name.contains(/-(?:4000|16000|1600)(?:x|$)/) }
    }

    @Test(arguments: smallCases.map(\.name), [MergeStrategy.indexed, .everyPair])
    func aCaseIsMergedAsByTheReference(_ name: String, _ strategy: MergeStrategy) throws {
        let sides = try #require(Self.smallCases.first { $0.name == name }).tagged()
        var arena = ChangesetArena()
        for side in [sides.local, sides.incoming] {
            for (position, changeset) in side.enumerated() {
                try arena.decode(changeset.bytes, version: UInt64(position + 2), tag: changeset.tag)
            }
        }
        let local = Array(arena.changesets.prefix(sides.local.count))
        try arena.merge(local: local, incoming: Array(arena.changesets.dropFirst(local.count)), strategy: strategy)
        let digest = try #require(Self.recorded()[name])
        #expect(
            MergeDigest.text(of: arena.encoded(arena.changesets)) == digest,
            "anabranch-lab bench cases case.jsonl --only \(name) && anabranch-lab bench merge case.jsonl")
    }

    @Test func everyCaseIsRecorded() throws {
        #expect(Set(try Self.recorded().keys) == Set(BenchmarkCase.all(seed: 0, large: false).map(\.name)))
        #expect(Self.smallCases.count == 15)
    }
}
