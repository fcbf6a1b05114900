import AnabranchTesting

/// The results of runs.
package struct SimulationTally: RunTally {
    package var passed = 0
    package var failures: [(seed: UInt64, plan: String, reason: String)] = []
    /// The number of times that each event has happened, as proof that it does happen.
    package var marks: [String: Int] = [:]
    /// The sum of the traces of all runs, which does not depend on their order.
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

    /// The events that must occur in many runs, or the runs prove nothing.
    package static let expected: [String] =
        SimulationPlan.Fault.allCases.map(\.rawValue) + [
            "acknowledged", "bootstrap", "client reset", "client's last word", "clock right again",
            "compensating write", "copies meet", "digest compared", "discarded", "expired", "generation",
            "hostile message", "hostile session", "hostile upload refused", "merge", "part of a bootstrap", "query",
            "query refused", "recovered", "sealed", "server write", "server's clock ahead", "server's last word",
            "subscriptions recovered", "superseded", "thrown away", "trimmed", "token refused",
            "token of a fork refused", "upload without permission", "waits for memory", "error 101", "error 201",
            "error 206", "error 208", "error 209", "error 211", "error 222", "error 223", "error 230",
        ]

    /// The same where there are several nodes.
    private static let expectedOfNodes: [String] =
        expected + [
            "client moves", "client moves over a sound store", "found away", "mark answered", "node stopped",
            "restored under a node", "wake lost",
        ]

    /// Returns the expected events that have happened fewer than five times per 200 runs. The rarest happen about 18
    /// times (error 230, after which no client tries the same again).
    /// - Parameter faults: the only faults that occur, whose occurrence is then all that is expected; nil if all may
    ///   occur.
    package func missing(_ faults: Set<SimulationPlan.Fault>? = nil, nodeCount: Int = 1) -> [String] {
        let expected = faults?.map(\.rawValue).sorted() ?? (nodeCount > 1 ? Self.expectedOfNodes : Self.expected)
        return expected.filter { marks[$0, default: 0] * 200 < 5 * (passed + failures.count) }
    }
}
