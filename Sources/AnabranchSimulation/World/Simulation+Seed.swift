extension Simulation {
    /// Runs a seed, and once more if `twice` is set, to see that nothing in the run is left to chance.
    /// - Parameters:
    ///   - faults: as for `init`.
    ///   - nodeCount: as for `init`.
    package static func tally(
        of seed: UInt64, faults: Set<SimulationPlan.Fault>? = nil, nodeCount: Int = 1, twice: Bool
    ) -> SimulationTally {
        let (tally, trace) = tally(of: seed, faults, nodeCount)
        guard twice, tally.failures.isEmpty else { return tally }
        let (again, other) = Self.tally(of: seed, faults, nodeCount)
        guard again.failures.isEmpty, trace != other else { return again.failures.isEmpty ? tally : again }
        var failed = SimulationTally()
        failed.failures = [(seed, "", "two runs of the seed are not the same\n\(difference(seed, faults, nodeCount))")]
        return failed
    }

    /// Returns the first events in which two runs differ.
    private static func difference(
        _ seed: UInt64, _ faults: Set<SimulationPlan.Fault>?, _ nodeCount: Int
    ) -> String {
        let runs = (0..<2).map { _ in
            var lines: [String] = []
            let simulation = try? Simulation(seed: seed, faults: faults, nodeCount: nodeCount)
            simulation?.printTrace = { lines.append($0) }
            try? simulation?.run()
            return lines
        }
        let common = zip(runs[0], runs[1]).prefix { $0 == $1 }.count
        return runs.map { $0.dropFirst(common).first ?? "the end" }.joined(separator: "\n")
    }

    private static func tally(
        of seed: UInt64, _ faults: Set<SimulationPlan.Fault>?, _ nodeCount: Int
    ) -> (tally: SimulationTally, trace: TraceHash) {
        var plan = ""
        do {
            let simulation = try Simulation(seed: seed, faults: faults, nodeCount: nodeCount)
            plan = "\(simulation.plan)"
            try simulation.run()
            simulation.tally.trace = simulation.trace.value
            return (simulation.tally, simulation.trace)
        } catch {
            var tally = SimulationTally()
            tally.failures = [(seed, plan, "\(error)")]
            return (tally, TraceHash())
        }
    }
}
