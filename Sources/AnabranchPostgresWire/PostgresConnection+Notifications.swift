#if canImport(CLibPQ)
import CLibPQ

extension PostgresConnection {
    /// Waits for notifications of the channels that the connection listens to.
    ///
    /// - Parameter seconds: the time to wait for the first one.
    /// - Returns: the payloads of those that have come, in their order; none if the time is up.
    /// - Throws: `PostgresError` if the connection has broken.
    public func notifications(within seconds: Double) throws(PostgresError) -> [String] {
        let deadline = Self.deadline(seconds)
        while true {
            guard PQconsumeInput(handle) == 1 else { throw broken() }
            var payloads: [String] = []
            while let notice = PQnotifies(handle) {
                payloads.append(String(cString: notice.pointee.extra))
                PQfreemem(notice)
            }
            if !payloads.isEmpty { return payloads }
            guard try wait(forWriting: false, until: deadline) else { return [] }
        }
    }
}
#endif
