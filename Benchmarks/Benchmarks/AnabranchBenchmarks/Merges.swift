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
            for _ in benchmark.scaledIterations { blackHole(try input.pool()) }
        }
        Benchmark("codec encode \(name)") { benchmark in
            let pool = try input.pool()
            benchmark.startMeasurement()
            for _ in benchmark.scaledIterations {
                for changeset in 0..<pool.count { blackHole(pool.encodedAnew(changeset)) }
            }
        }
        Benchmark("transform \(name)") { benchmark in
            for _ in benchmark.scaledIterations {
                var pool = try input.pool()
                benchmark.startMeasurement()
                try input.merge(&pool)
                benchmark.stopMeasurement()
                blackHole(pool)
            }
        }
    }
}
