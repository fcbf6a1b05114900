public import Metrics
import Synchronization

/// Keeps the metrics of a process in memory, for scrapes by Prometheus (text format 0.0.4; `Spec/Admin.md`, section 4).
public final class PrometheusMetrics: MetricsFactory {
    private let families = Mutex<[String: Family]>([:])

    /// A factory that has no metrics yet.
    public init() {}

    /// The series of one name.
    private struct Family {
        enum Kind: String {
            case counter, gauge, histogram
        }

        let kind: Kind
        var series: [String: Series] = [:]
    }

    /// The values of one name and one set of labels.
    fileprivate final class Series: Sendable {
        struct State {
            var value = 0.0
            var count: Int64 = 0
            /// The number of values not above each of `bounds`.
            var buckets = [Int64](repeating: 0, count: Series.bounds.count)
        }

        /// The upper bounds of the buckets, in seconds.
        static let bounds = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]

        let state = Mutex(State())

        func observe(_ value: Double) {
            state.withLock { state in
                state.value += value
                state.count += 1
                for (index, bound) in Self.bounds.enumerated() where value <= bound { state.buckets[index] += 1 }
            }
        }
    }

    private func series(_ kind: Family.Kind, _ name: String, _ labels: [(String, String)]) -> Series {
        let text = labels.map { "\($0)=\"\(Self.escaped($1))\"" }.joined(separator: ",")
        return families.withLock { families in
            if let known = families[name]?.series[text] { return known }
            let series = Series()
            families[name, default: Family(kind: kind)].series[text] = series
            return series
        }
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }

    // MARK: MetricsFactory

    /// A number that only grows.
    public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        Handler(series: series(.counter, label, dimensions))
    }

    /// A histogram if values are to be aggregated, else a gauge.
    public func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        Handler(series: series(aggregate ? .histogram : .gauge, label, dimensions), isGauge: !aggregate)
    }

    /// A histogram in seconds; its name ends in `_seconds`.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        Handler(series: series(.histogram, label + "_seconds", dimensions))
    }

    /// Does nothing: a scrape shows all metrics that were ever made.
    public func destroyCounter(_ handler: any CounterHandler) {}
    /// Does nothing, see `destroyCounter`.
    public func destroyRecorder(_ handler: any RecorderHandler) {}
    /// Does nothing, see `destroyCounter`.
    public func destroyTimer(_ handler: any TimerHandler) {}

    private final class Handler: CounterHandler, RecorderHandler, TimerHandler {
        private let series: Series
        private let isGauge: Bool

        init(series: Series, isGauge: Bool = false) {
            self.series = series
            self.isGauge = isGauge
        }

        func increment(by amount: Int64) { series.state.withLock { $0.value += Double(amount) } }

        func reset() { series.state.withLock { $0 = Series.State() } }

        func record(_ value: Int64) { record(Double(value)) }

        func record(_ value: Double) {
            if isGauge { series.state.withLock { $0.value = value } } else { series.observe(value) }
        }

        func recordNanoseconds(_ duration: Int64) { series.observe(Double(duration) / 1e9) }
    }

    /// Shows something constant, such as the version, as the labels of a gauge of 1.
    package func show(_ name: String, _ labels: [(String, String)]) { series(.gauge, name, labels).observe(1) }

    // MARK: Text

    /// All metrics, in the order of their names.
    /// - Parameter values: metrics that are looked up rather than counted: counters if their names end in `_total`,
    ///   else gauges.
    func text(values: [String: Double] = [:]) -> String {
        var texts = values.map { name, value in
            let kind = name.hasSuffix("_total") ? Family.Kind.counter : .gauge
            return (name, Self.head(name, kind) + "\(name) \(Self.number(value))\n")
        }
        for (name, family) in families.withLock({ $0 }) {
            var text = Self.head(name, family.kind)
            for (labels, series) in family.series.sorted(by: { $0.key < $1.key }) {
                text += Self.text(name, labels, series, isHistogram: family.kind == .histogram)
            }
            texts.append((name, text))
        }
        return texts.sorted { $0.0 < $1.0 }.map(\.1).joined()
    }

    private static func head(_ name: String, _ kind: Family.Kind) -> String {
        (MetricHelp.texts[name].map { "# HELP \(name) \($0)\n" } ?? "") + "# TYPE \(name) \(kind.rawValue)\n"
    }

    private static func text(_ name: String, _ labels: String, _ series: Series, isHistogram: Bool) -> String {
        let state = series.state.withLock { $0 }
        let braces = labels.isEmpty ? "" : "{\(labels)}"
        guard isHistogram else { return "\(name)\(braces) \(number(state.value))\n" }
        let prefix = labels.isEmpty ? "" : labels + ","
        let bounds = Series.bounds.map { "\($0)" } + ["+Inf"]
        var text = ""
        for (bound, count) in zip(bounds, state.buckets + [state.count]) {
            text += "\(name)_bucket{\(prefix)le=\"\(bound)\"} \(count)\n"
        }
        return text + "\(name)_sum\(braces) \(state.value)\n\(name)_count\(braces) \(state.count)\n"
    }

    private static func number(_ value: Double) -> String {
        Int64(exactly: value).map { "\($0)" } ?? "\(value)"
    }
}
