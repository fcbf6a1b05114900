import Benchmark

let benchmarks: @Sendable () -> Void = {
    Benchmark.defaultConfiguration = .init(
        metrics: [.wallClock, .throughput, .peakMemoryResident], warmupIterations: 1, maxDuration: .seconds(3),
        maxIterations: 50)
    registerMerges()
    registerApplications()
    registerIntegrations()
}
