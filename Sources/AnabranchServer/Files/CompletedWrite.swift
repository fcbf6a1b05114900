public import AnabranchCore
import AnabranchHistory

/// A write of the server itself that is durable.
public struct CompletedWrite<Value> {
    /// The log entry that it became; the version that the file had if nothing was changed.
    public let version: ServerVersion
    /// The write had been made before, under the same idempotency key; nothing happened now.
    public let isRepetition: Bool
    /// What the closure returned. Of a write with an idempotency key it is nil for a repetition, whose closure was not
    /// called.
    public let value: Value
}

extension CompletedWrite: Sendable where Value: Sendable {}
extension CompletedWrite: Equatable where Value: Equatable {}

extension CompletedWrite {
    init<Wrapped>(_ made: ServerWrite, _ value: Wrapped?) where Value == Wrapped? {
        self.init(version: made.version, isRepetition: made.isRepetition, value: value)
    }
}
