import AnabranchCore
import AnabranchTesting
import Benchmark

/// Decoding, merging and encoding the cases that `anabranch-lab bench cases` writes.
func registerMerges() {
    for mergeCase in BenchmarkCase.all(seed: 0, large: false) {
        let name = mergeCase.name
        // Made when a benchmark first runs: most runs are of a few benchmarks only.
        let input = MergeInput(mergeCase)
        Benchmark("codec decode \(name)") { benchmark in
            for _ in benchmark.scaledIterations { blackHole(try input.arena()) }
        }
        Benchmark("codec encode \(name)") { benchmark in
            let arena = try input.arena()
            benchmark.startMeasurement()
            for _ in benchmark.scaledIterations {
                for changeset in arena.changesets { blackHole(arena.encodedAnew(changeset)) }
            }
        }
        Benchmark("transform \(name)") { benchmark in
            for _ in benchmark.scaledIterations {
                var arena = try input.arena()
                benchmark.startMeasurement()
                try input.merge(&arena)
                benchmark.stopMeasurement()
                blackHole(arena)
            }
        }
    }
}
