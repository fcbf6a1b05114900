import AnabranchCore
import Testing

@testable import AnabranchSimperium

/// The rows of the table in section 4, each on the member `m`.
@Suite struct JSONDiffRebaseTests {
    @Test(
        arguments: [
            // The value before (null: none), ours, theirs, and what is left of ours (null: nothing).
            [.null, ["o": "+", "v": 1], ["o": "+", "v": .real(1)], .null],
            [.null, ["o": "+", "v": "ab"], ["o": "+", "v": "a"], ["o": "d", "v": "=1\t+b"]],
            [1, ["o": "-"], ["o": "-"], .null],
            [1, ["o": "-"], ["o": "r", "v": 2], ["o": "-"]],
            [1, ["o": "r", "v": 2], ["o": "-"], ["o": "+", "v": 2]],
            [1, ["o": "+", "v": 2], ["o": "-"], ["o": "+", "v": 2]],
            ["a", ["o": "d", "v": "=1\t+b"], ["o": "-"], ["o": "+", "v": "ab"]],
            [1, ["o": "I", "v": 2], ["o": "-"], ["o": "+", "v": 3]],
            [[1], ["o": "L", "v": ["0": ["o": "-"]]], ["o": "-"], ["o": "+", "v": []]],
            [["k": 1], ["o": "O", "v": ["k": ["o": "-"]]], ["o": "-"], ["o": "+", "v": [:]]],
            [["k": 1], ["o": "O", "v": ["k": ["o": "-"]]], ["o": "O", "v": ["k": ["o": "-"]]], .null],
            ["ab", ["o": "d", "v": "-1\t=1"], ["o": "d", "v": "-1\t=1"], .null],
            [1, ["o": "I", "v": 2], ["o": "I", "v": 3], ["o": "I", "v": 2]],
            [1, ["o": "r", "v": 2], ["o": "r", "v": 3], ["o": "r", "v": 2]],
            ["a", ["o": "d", "v": "=1\t+b"], ["o": "r", "v": 7], ["o": "r", "v": "ab"]],
            ["a", ["o": "d", "v": "=1\t+b"], ["o": "r", "v": "ab"], .null],
            [1, ["o": "I", "v": 2], ["o": "r", "v": 9], ["o": "r", "v": 3]],
        ] as [[JSONValue]])
    func row(_ row: [JSONValue]) throws {
        let base: [JSONName: JSONValue] = row[0] == .null ? [:] : ["m": row[0]]
        let ours = try ObjectDiff(parsing: ["m": row[1]]), theirs = try ObjectDiff(parsing: ["m": row[2]])
        let rebased = try ours.rebased(over: theirs, base: base)
        #expect(rebased.json == (row[3] == .null ? [:] : ["m": row[3]]))
        // It fits what theirs has made.
        _ = try rebased.applied(to: theirs.applied(to: base, bytesMax: 1000), bytesMax: 1000)
    }

    @Test(
        arguments: [
            // from, to, the difference in detail
            [[], [1], ["0": ["o": "+", "v": 1]]], [[1], [], ["0": ["o": "-"]]],
            [[1, 2, 3], [2, 3], ["0": ["o": "-"]]], [[1, 2, 3], [1, 9, 2, 3], ["1": ["o": "+", "v": 9]]],
            [[1, 2], [2, 3, 4], ["0": ["o": "-"], "2": ["o": "+", "v": 3], "3": ["o": "+", "v": 4]]],
            [["a", "b", "c"], ["a", "bb", "c"], ["1": ["o": "d", "v": "=1\t+b"]]],
            [[["k": 1, "l": 2]], [["k": 4, "l": 2]], ["0": ["o": "O", "v": ["k": ["o": "I", "v": 3]]]]],
            [[[1]], [[1, 2]], ["0": ["o": "L", "v": ["1": ["o": "+", "v": 2]]]]],
        ] as [[JSONValue]])
    func aListInDetail(_ row: [JSONValue]) throws {
        let diff = ObjectDiff(inDetailFrom: ["m": row[0]], to: ["m": row[1]])
        #expect(diff.json == ["m": ["o": "L", "v": row[2]]])
        #expect(try diff.applied(to: ["m": row[0]], bytesMax: 1000) == ["m": row[1]])
        #expect(ObjectDiff(inDetailFrom: ["m": row[1]], to: ["m": row[1]]).isEmpty)
    }

    @Test func editsOfListsAndNumbersGoBesideADifferenceInDetail() throws {
        let base: [JSONName: JSONValue] = ["l": [1, 2, 3], "n": 1, "r": .real(0.5), "t": "a"]
        let theirs = ObjectDiff(inDetailFrom: base, to: ["l": [0, 1, 3], "n": 10, "r": 1, "t": "ab"])
        let ours = try ObjectDiff(
            parsing: [
                "l": ["o": "L", "v": ["3": ["o": "+", "v": 4]]], "n": ["o": "I", "v": 2], "r": ["o": "I", "v": 1],
                "t": ["o": "d", "v": "+x\t=1"],
            ])
        let their = try theirs.applied(to: base, bytesMax: 1000)
        let merged = try ours.rebased(over: theirs, base: base).applied(to: their, bytesMax: 1000)
        #expect(merged == ["l": [0, 1, 3, 4], "n": 12, "r": 2, "t": "xab"])
        for (old, new) in [(.integer(.min), 1), (true, 1), (1, "1")] as [(JSONValue, JSONValue)] {
            #expect(ObjectDiff(inDetailFrom: ["n": old], to: ["n": new]).json == ["n": ["o": "r", "v": new]])
        }
    }
}
