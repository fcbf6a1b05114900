import AnabranchCore
import Foundation

/// What all pairs in a number of small states have shown.
struct SmallWorldReport: RunTally, CustomStringConvertible {
    private static let kindCount = InstructionKind.allCases.count

    var states = 0
    /// How often a pair was changed by the merge, by the rule that did it.
    var rules: [MergeRule: Int] = [:]
    /// Pairs that were changed although no rule is known for them.
    var unexplained = 0
    /// Pairs that do not converge and are known not to.
    var excluded: [Exclusion: Int] = [:]
    var failures = 0
    /// The first few of the failures.
    var failureTexts: [String] = []
    /// How often the kinds met, the lower opcode first.
    private var meetings = Array(repeating: 0, count: kindCount * kindCount)

    var pairs: Int { meetings.reduce(0, +) }
    /// All pairs are tried, whatever fails.
    var hasFailed: Bool { false }

    mutating func notePair(_ kinds: (InstructionKind, InstructionKind)) {
        let (low, high) = (min(kinds.0.rawValue, kinds.1.rawValue), max(kinds.0.rawValue, kinds.1.rawValue))
        meetings[Int(low) * Self.kindCount + Int(high)] += 1
    }

    mutating func add(_ other: SmallWorldReport) {
        states += other.states
        rules.merge(other.rules, uniquingKeysWith: +)
        unexplained += other.unexplained
        excluded.merge(other.excluded, uniquingKeysWith: +)
        failures += other.failures
        failureTexts = Array((failureTexts + other.failureTexts).prefix(10))
        for index in meetings.indices { meetings[index] += other.meetings[index] }
    }

    // MARK: Coverage

    /// Rules without effect and kinds that did not meet, in words.
    var gaps: [String] {
        var gaps = MergeRule.allCases.filter { $0.whyNoEffect == nil && rules[$0] == nil }
            .map { "rule \($0) has never had an effect" }
        for low in InstructionKind.allCases {
            for high in InstructionKind.allCases where high.rawValue >= low.rawValue && meetings(low, high) == 0 {
                gaps.append("\(low) and \(high) have never met")
            }
        }
        if unexplained > 0 { gaps.append("\(unexplained) pairs were changed by no known rule") }
        return gaps
    }

    var isClean: Bool { failures == 0 && gaps.isEmpty }

    private func meetings(_ low: InstructionKind, _ high: InstructionKind) -> Int {
        meetings[Int(low.rawValue) * Self.kindCount + Int(high.rawValue)]
    }

    // MARK: Text

    var description: String {
        var lines = ["How often two kinds met:"] + meetingLines + ["How often a rule had an effect:"]
        for rule in MergeRule.allCases {
            lines.append(
                String(format: "%8ld  ", rules[rule] ?? 0) + rule.rawValue + (rule.whyNoEffect.map { ": \($0)" } ?? ""))
        }
        lines.append("Pairs that do not converge, as in the reference:")
        for exclusion in Exclusion.allCases {
            guard let count = excluded[exclusion] else { continue }
            lines.append(String(format: "%8ld  ", count) + "\(exclusion.rawValue): \(exclusion.summary)")
        }
        lines += failureTexts + gaps
        let known = excluded.values.reduce(0, +)
        lines.append("\(states) states, \(pairs) pairs, \(known) excluded, \(failures) divergences, \(gaps.count) gaps")
        return lines.joined(separator: "\n")
    }

    private var meetingLines: [String] {
        let kinds = InstructionKind.allCases
        let width = 14
        func cell(_ text: String) -> String { String(repeating: " ", count: max(1, 7 - text.utf8.count)) + text }
        func name(_ kind: InstructionKind) -> String { "\(kind)".padding(toLength: width, withPad: " ", startingAt: 0) }
        let head = String(repeating: " ", count: width) + kinds.map { cell("\($0.rawValue)") }.joined()
        return [head]
            + kinds.map { high in
                name(high)
                    + kinds.prefix { $0.rawValue <= high.rawValue }.map { cell("\(meetings($0, high))") }.joined()
            }
    }
}
