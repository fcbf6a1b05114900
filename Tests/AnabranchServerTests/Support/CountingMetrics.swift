import Metrics

/// Keeps the values of counters.
final class CountingMetrics: MetricsFactory {
    private let values = Watched<[String: Int64]>([:])

    func value(_ label: String) -> Int { Int(values.withLock { $0[label] ?? 0 }) }

    /// Returns once the counter is not 0.
    func wait(for label: String) async { await values.wait { $0[label, default: 0] > 0 } }

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        Handler(label: label, metrics: self)
    }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        NOOPMetricsHandler.instance.makeRecorder(label: label, dimensions: dimensions, aggregate: aggregate)
    }

    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        NOOPMetricsHandler.instance.makeTimer(label: label, dimensions: dimensions)
    }

    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) {}
    func destroyTimer(_ handler: any TimerHandler) {}

    private final class Handler: CounterHandler {
        private let label: String
        private let metrics: CountingMetrics

        init(label: String, metrics: CountingMetrics) {
            self.label = label
            self.metrics = metrics
        }

        func increment(by amount: Int64) { metrics.values.withLock { $0[label, default: 0] += amount } }

        func reset() { metrics.values.withLock { $0[label] = 0 } }
    }
}
