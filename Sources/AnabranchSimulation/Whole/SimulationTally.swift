import AnabranchTesting

/// What runs have come to.
package struct SimulationTally: RunTally {
    package var passed = 0
    package var failures: [(seed: UInt64, plan: String, reason: String)] = []
    /// How often what has happened: proves that it does.
    package var marks: [String: Int] = [:]
    /// Of all runs together, in any order.
    package var trace: UInt64 = 0

    package init() {}

    package mutating func add(_ other: SimulationTally) {
        passed += other.passed
        failures += other.failures
        marks.merge(other.marks, uniquingKeysWith: +)
        trace &+= other.trace
    }

    package var hasFailed: Bool { failures.count >= 10 }

    mutating func mark(_ what: String) { marks[what, default: 0] += 1 }

    /// What has to happen in many runs, or they prove nothing.
    package static let expected: [String] =
        SimulationPlan.Fault.allCases.map(\.rawValue) + [
            "acknowledged", "bootstrap", "client reset", "clock right again", "compensating write", "discarded",
            "expired", "generation",
            "hostile message", "merge", "part of a bootstrap", "query", "query refused", "recovered", "sealed",
            "server write", "server's last word", "superseded", "trimmed", "token refused",
            "token of a fork refused", "error 101", "error 201", "error 206", "error 208", "error 209", "error 211",
            "error 222", "error 230",
        ]

    /// Those of them that have happened less than five times for 200 runs. The rarest happen about 18 times (error 230,
    /// after which nobody tries the same again).
    /// - Parameter faults: those alone that go wrong, of which not more is expected than that they do; nil: all do.
    package func missing(_ faults: Set<SimulationPlan.Fault>? = nil) -> [String] {
        let expected = faults?.map(\.rawValue).sorted() ?? Self.expected
        return expected.filter { marks[$0, default: 0] * 200 < 5 * (passed + failures.count) }
    }
}
