import AnabranchCore

/// The number of values that may still be looked at for the object that is being evaluated (`QueryLimits.looksMax`).
final class LookBudget {
    private let looksMax: Int
    private var left: Int

    init(looksMax: Int) { (self.looksMax, left) = (looksMax, looksMax) }

    func beginObject() { left = looksMax }

    @inline(__always)
    func count(_ looks: Int = 1) throws(QueryError) {
        left -= looks
        if left < 0 { throw exceeded }
    }

    /// Counts reading values, which are kept with the others until they are compared.
    func countRead(_ values: Int) throws(QueryError) { try count(4 * values) }

    /// Counts reading bytes.
    func count(bytes: Int) throws(QueryError) { try count(1 + bytes / 16) }

    /// Counts reading two values to compare them.
    func count(comparing left: StateValue, _ right: StateValue) throws(QueryError) {
        if let left = left.bytes, let right = right.bytes { try count(bytes: min(left.count, right.count)) }
    }

    private var exceeded: QueryError {
        QueryError(.limit, at: 0, "for one object more than \(looksMax) values would be looked at")
    }
}
