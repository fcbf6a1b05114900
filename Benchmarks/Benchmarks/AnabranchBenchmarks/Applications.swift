import AnabranchCore
import AnabranchTesting
import Benchmark

/// Applying alone, and after merging: what one side has written to the state of the other.
func registerApplications() {
    let size = ApplyWorkload.Size(objects: 20_000, list: 10_000, operations: 20_000)
    for workload in ApplyWorkload.allCases {
        Benchmark("apply \(workload.rawValue)") { benchmark in
            var arena = ChangesetArena()
            try arena.decode(workload.changeset(size), version: 1, tag: OriginTag(timestamp: 1, ident: 2))
            let start = try ApplyWorkload.start(size)
            for _ in benchmark.scaledIterations {
                var state = start
                benchmark.startMeasurement()
                _ = try state.apply(0, of: arena)
                benchmark.stopMeasurement()
                blackHole(state)
            }
        }
    }
    for mergeCase in BenchmarkCase.all(seed: 0, large: false) where mergeCase.name.hasPrefix("list-insert-") {
        let input = MergeInput(mergeCase)
        Benchmark("apply \(mergeCase.name), both directions") { benchmark in
            let before = try input.states()
            var arena = try input.arena()
            try input.merge(&arena)
            for _ in benchmark.scaledIterations {
                var states = before
                benchmark.startMeasurement()
                try input.exchange(arena, between: &states)
                benchmark.stopMeasurement()
                blackHole(states)
            }
        }
        Benchmark("merge and apply \(mergeCase.name), both directions") { benchmark in
            let before = try input.states()
            for _ in benchmark.scaledIterations {
                var states = before
                benchmark.startMeasurement()
                var arena = try input.arena()
                try input.merge(&arena)
                try input.exchange(arena, between: &states)
                benchmark.stopMeasurement()
                blackHole(states)
            }
        }
    }
}
