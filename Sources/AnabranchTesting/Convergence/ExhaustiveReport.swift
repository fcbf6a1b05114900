import AnabranchCore

/// The results of trying all pairs in a number of small states.
package struct ExhaustiveReport: RunTally, CustomStringConvertible {
    private static let kindCount = InstructionKind.allCases.count

    package internal(set) var states = 0
    /// The number of pairs that the merge changed, by the rule that did it.
    var rules: [MergeRule: Int] = [:]
    /// Pairs that were changed although no rule is known for them.
    var unexplained = 0
    /// Pairs that do not converge and are known not to.
    var excluded: [KnownDivergence: Int] = [:]
    package internal(set) var failures = 0
    /// The first few of the failures.
    package internal(set) var failureTexts: [String] = []
    /// The number of times that two kinds met, at the index of the lower opcode × `kindCount` + the higher one.
    private var meetings = Array(repeating: 0, count: kindCount * kindCount)

    package init() {}

    package var pairs: Int { meetings.reduce(0, +) }
    /// Always false: all pairs are tried, whatever fails.
    package var hasFailed: Bool { false }

    mutating func countPair(_ kinds: (InstructionKind, InstructionKind)) {
        let (low, high) = (min(kinds.0.rawValue, kinds.1.rawValue), max(kinds.0.rawValue, kinds.1.rawValue))
        meetings[Int(low) * Self.kindCount + Int(high)] += 1
    }

    package mutating func add(_ other: ExhaustiveReport) {
        states += other.states
        rules.merge(other.rules, uniquingKeysWith: +)
        unexplained += other.unexplained
        excluded.merge(other.excluded, uniquingKeysWith: +)
        failures += other.failures
        failureTexts = Array((failureTexts + other.failureTexts).prefix(10))
        for index in meetings.indices { meetings[index] += other.meetings[index] }
    }

    // MARK: Coverage

    /// Rules without effect, pairs of kinds that never met, and changes by no known rule, in words.
    package var gaps: [String] {
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

    package var isClean: Bool { failures == 0 && gaps.isEmpty }

    private func meetings(_ low: InstructionKind, _ high: InstructionKind) -> Int {
        meetings[Int(low.rawValue) * Self.kindCount + Int(high.rawValue)]
    }

    // MARK: Text

    package var description: String {
        var lines = ["How often two kinds met:"] + meetingLines + ["How often a rule had an effect:"]
        for rule in MergeRule.allCases {
            let why = rule.whyNoEffect.map { ": \($0)" } ?? ""
            lines.append("\((rules[rule] ?? 0).padded(to: 8))  \(rule)\(why)")
        }
        lines.append("Pairs that do not converge, as in the reference:")
        for divergence in KnownDivergence.allCases {
            guard let count = excluded[divergence] else { continue }
            lines.append("\(count.padded(to: 8))  \(divergence.rawValue): \(divergence.summary)")
        }
        lines += failureTexts + gaps
        let known = excluded.values.reduce(0, +)
        lines.append("\(states) states, \(pairs) pairs, \(known) excluded, \(failures) divergences, \(gaps.count) gaps")
        return lines.joined(separator: "\n")
    }

    private var meetingLines: [String] {
        let kinds = InstructionKind.allCases
        let width = 14
        func name(_ kind: InstructionKind) -> String {
            "\(kind)" + String(repeating: " ", count: width - "\(kind)".utf8.count)
        }
        let head = String(repeating: " ", count: width) + kinds.map { $0.rawValue.padded(to: 7) }.joined()
        return [head]
            + kinds.map { high in
                let counts = kinds.prefix { $0.rawValue <= high.rawValue }.map { meetings($0, high) }
                return name(high) + counts.map { $0.padded(to: 7) }.joined()
            }
    }
}

extension BinaryInteger {
    /// The number, with spaces before it: at least `width` characters.
    package func padded(to width: Int) -> String {
        let digits = "\(self)"
        return String(repeating: " ", count: Swift.max(0, width - digits.utf8.count)) + digits
    }
}
