import AnabranchTesting
import Benchmark

/// A server in memory, to which clients come back with 100 transactions each.
func registerIntegrations() {
    for clients in [8, 32, 128, 512] {
        register("integrate own objects, \(clients) clients", .ownObjects(clients: clients, transactions: 100))
    }
    for clients in [8, 16, 32, 64] {
        register("integrate one list, \(clients) clients", .oneList(clients: clients, transactions: 100))
    }
}

private func register(_ name: String, _ workload: @autoclosure @escaping () -> ServerWorkload) {
    Benchmark(name) { benchmark in
        let workload = workload()
        for _ in benchmark.scaledIterations {
            let server = try workload.makeServer()
            benchmark.startMeasurement()
            try workload.integrate(into: server)
            benchmark.stopMeasurement()
        }
    }
}
