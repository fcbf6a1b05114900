import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchSimperium

/// Diffs that are refused: each with its code, none with a trap.
@Suite struct JSONDiffRefusalTests {
    static func code(_ diff: String, on entity: JSONValue = [:], bytesMax: Int = 1000) -> JSONDiffError.Code? {
        do throws(JSONDiffError) {
            guard let json = try? JSONValue(parsing: Array(diff.utf8)), let members = entity.members else {
                Issue.record("no JSON: \(diff)")
                return nil
            }
            _ = try ObjectDiff(parsing: json).applied(to: members, bytesMax: bytesMax)
            return nil
        } catch {
            return error.code
        }
    }

    @Test(arguments: [
        "=99999999999999999999", "=9223372036854775807\\t=1", "-9223372036854775807\\t-9223372036854775807", "=", "=-1",
        "=+1", "*1", "+%", "+%4", "+%GG", "+%FF", "+%C0%80", "+%F4%90%80%80",
    ])
    func malformedDeltas(delta: String) {
        #expect(Self.code(#"{"a":{"o":"d","v":"\#(delta)"}}"#, on: ["a": "x"]) == .malformed)
    }

    @Test(arguments: [
        "[]", #"{"a":1}"#, #"{"a":{}}"#, #"{"a":{"o":"x"}}"#, #"{"a":{"o":"+"}}"#, #"{"a":{"o":"I","v":"1"}}"#,
        #"{"a":{"o":"L","v":{"-1":{"o":"-"}}}}"#, #"{"a":{"o":"L","v":{"1":{"o":"-"},"01":{"o":"-"}}}}"#,
        #"{"a":{"o":"L","v":{"99999999999999999999":{"o":"-"}}}}"#,
    ])
    func malformedDiffs(diff: String) {
        #expect(Self.code(diff, on: ["a": [1, 2, 3]]) == .malformed)
    }

    @Test(arguments: [
        #"{"a":{"o":"d","v":"=9"}}"#, #"{"a":{"o":"d","v":"=9223372036854775807"}}"#, #"{"a":{"o":"O","v":{}}}"#,
        #"{"a":{"o":"I","v":1}}"#, #"{"b":{"o":"L","v":{"9223372036854775807":{"o":"-"}}}}"#,
        #"{"b":{"o":"dL","v":"=3"}}"#, #"{"b":{"o":"dL","v":"=9223372036854775807"}}"#,
        #"{"b":{"o":"dL","v":"=2\t+["}}"#, #"{"c":{"o":"d","v":"+x"}}"#,
    ])
    func diffsOfSomethingElse(diff: String) {
        #expect(Self.code(diff, on: ["a": "x", "b": [1]]) == .doesNotApply)
    }

    @Test func outcomesThatAreTooLarge() {
        // {"a":"xy"} has ten bytes.
        let diff = #"{"a":{"o":"d","v":"=1\t+y"}}"#
        #expect(Self.code(diff, on: ["a": "x"], bytesMax: 10) == nil)
        #expect(Self.code(diff, on: ["a": "x"], bytesMax: 9) == .tooLarge)
    }

    @Test func deltasOfAPairCutAnywhere() throws {
        // Each way to keep or delete each of the four halves: the outcome is whole, or it is refused.
        let text = "😀😁", units = Array(text.utf16)
        for mask in 0..<16 {
            let kept = (0..<4).filter { mask >> $0 & 1 == 1 }
            let delta = (0..<4).map { kept.contains($0) ? "=1" : "-1" }.joined(separator: "\t")
            let expected = String(validating: kept.map { units[$0] }, as: UTF16.self)
            let read = try TextDelta(decoding: delta)
            guard let expected else {
                #expect { try read.applied(to: text) } throws: { ($0 as? JSONDiffError)?.code == .doesNotApply }
                continue
            }
            #expect(try read.applied(to: text) == expected)
            #expect(try read.inWholeCharacters(of: text).applied(to: text) == expected)
        }
    }

    /// Line ends, marks that join what is before them, and characters of two code units: places are counted in code
    /// units, whatever counts as one character elsewhere.
    @Test func deltasAreAppliedByCodeUnits() throws {
        var random = SeededRandom(seed: 1)
        let characters: [Unicode.Scalar] = ["a", "\r", "\n", "é", "e", "\u{301}", "🔔", "🤔", "\u{200D}", "\u{FFFD}"]
        func text() -> String {
            var text = ""
            for _ in 0..<random.below(9) { text.unicodeScalars.append(random.pick(characters)) }
            return text
        }
        for _ in 0..<5_000 {
            let old = text(), units = Array(old.utf16)
            var delta = TextDelta(), expected: [UInt16] = [], place = 0
            while place < units.count {
                let count = 1 + random.below(units.count - place)
                let insertion = Array(text().utf16.dropFirst(random.below(2)))
                switch random.below(3) {
                case 0:
                    delta.append(.keep, count)
                    expected += units[place..<place + count]
                    place += count
                case 1:
                    delta.append(.delete, count)
                    place += count
                default:
                    delta.append(insertion[...])
                    expected += insertion
                }
            }
            let new = String(validating: expected, as: UTF16.self)
            #expect((try? delta.applied(to: old)).map { Array($0.utf8) } == new.map { Array($0.utf8) })
            #expect(delta.newCount == expected.count)
            guard let new else { continue }
            let whole = try delta.inWholeCharacters(of: old)
            #expect(try whole.applied(to: old).hasBytes(of: new))
            #expect(try TextDelta(decoding: whole.encoded) == whole)
        }
    }

    @Test func theWorkedExampleOfTheChapter() throws {
        let ours = try TextDelta(decoding: "=2\t+D"), theirs = try TextDelta(decoding: "=1\t+B\t=1")
        let rebased = try ours.rebased(over: theirs)
        #expect(rebased.encoded == "=3\t+D")
        #expect(try rebased.applied(to: theirs.applied(to: "AC")) == "ABCD")
    }
}
