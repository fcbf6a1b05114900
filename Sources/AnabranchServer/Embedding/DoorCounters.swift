package import Metrics

/// The counters of a door: the changes that its clients have requested, by outcome, and its connections.
package struct DoorCounters: Sendable {
    private let door: String
    private let factory: any MetricsFactory
    private let connections: Gauge

    /// - Parameters:
    ///   - door: its name.
    ///   - outcomes: those that are shown from the start.
    package init(door: String, outcomes: [String], factory: any MetricsFactory) {
        self.door = door
        self.factory = factory
        connections = Gauge(label: "anabranch_door_connections", dimensions: [("door", door)], factory: factory)
        connections.record(0)
        for outcome in outcomes { counter(outcome).increment(by: 0) }
    }

    /// Counts a change.
    package func countChange(_ outcome: String) { counter(outcome).increment() }

    /// Says how many clients are connected now.
    package func connected(_ count: Int) { connections.record(count) }

    private func counter(_ outcome: String) -> Counter {
        Counter(
            label: "anabranch_door_changes_total", dimensions: [("door", door), ("outcome", outcome)], factory: factory)
    }
}
