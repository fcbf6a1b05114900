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
}
