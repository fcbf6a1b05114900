public import AnabranchCore
import AnabranchHistory

/// A write of the server itself that is durable.
public struct CompletedWrite<Value> {
    /// The log entry that the write became; if nothing was changed, the version that the file had.
    public let version: ServerVersion
    /// True if the write had been made before, under the same idempotency key, so that nothing happened now.
    public let isRepetition: Bool
    /// The result of the closure. With an idempotency key, it is nil for a repetition, whose closure was not called.
    public let value: Value
}

extension CompletedWrite: Sendable where Value: Sendable {}
extension CompletedWrite: Equatable where Value: Equatable {}

extension CompletedWrite {
    init<Wrapped>(_ made: ServerWrite, _ value: Wrapped?) where Value == Wrapped? {
        self.init(version: made.version, isRepetition: made.isRepetition, value: value)
    }
}
