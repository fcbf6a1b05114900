#if canImport(CLibPQ)
import CLibPQ
import Foundation

/// A statement of a pipeline.
public struct PostgresStep: Sendable {
    /// The statement, with `$1` and so on for parameters.
    public var sql: String
    /// At most 65,535.
    public var parameters: [PostgresValue]

    /// Creates a step.
    public init(_ sql: String, _ parameters: [PostgresValue] = []) { (self.sql, self.parameters) = (sql, parameters) }
}

/// Several statements in one round trip. From its first pipeline on, a connection carries out nothing else.
extension PostgresConnection {
    /// Carries out statements one after the other, and prepares each of them when it is used for the first time. If one
    /// fails, those after it are not carried out; a transaction that they have begun has to be rolled back. When the
    /// time is up the connection is closed: nobody knows what the server has done.
    ///
    /// - Returns: the rows of each statement, in binary form.
    /// - Throws: `PostgresError` of the first that fails.
    public func pipeline(_ steps: [PostgresStep]) throws(PostgresError) -> [PostgresRows] {
        let deadline = Self.deadline(seconds)
        let sent = try send(steps)
        while pipelinesUnderWay > 1 { _ = try take([], until: deadline) }
        return try take(sent, until: deadline).get()
    }

    /// Sends statements whose results nobody needs, and does not wait for them.
    /// - Throws: `PostgresError` if the connection has broken.
    public func sendPipeline(_ steps: [PostgresStep]) throws(PostgresError) {
        _ = try send(steps)
        guard PQflush(handle) >= 0 else { throw broken() }
    }

    /// True if the connection is usable, as far as is known without asking the server: false if that has closed it.
    public func isAlive() -> Bool {
        while isOpen {
            var entry = pollfd(fd: PQsocket(handle), events: Int16(POLLIN), revents: 0)
            guard poll(&entry, 1, 0) > 0 else { return true }
            // A server that ends says so before it closes the connection.
            guard PQconsumeInput(handle) == 1 else { return false }
        }
        return false
    }

    /// The messages that were sent: the text of a statement that is prepared; nil for one that is carried out.
    private typealias Sent = [String?]

    private func send(_ steps: [PostgresStep]) throws(PostgresError) -> Sent {
        guard PQpipelineStatus(handle) != PQ_PIPELINE_OFF || PQenterPipelineMode(handle) == 1 else { throw broken() }
        var sent: Sent = []
        for step in steps {
            guard step.parameters.count <= Int(UInt16.max) else { throw PostgresError(.refused, "too many parameters") }
            let name = prepared[step.sql] ?? "s\(preparedCount)"
            if prepared.updateValue(name, forKey: step.sql) == nil {
                preparedCount += 1
                guard PQsendPrepare(handle, name, step.sql, 0, nil) == 1 else { throw broken() }
                sent.append(step.sql)
            }
            let isSent = Self.withValues(of: step.parameters) { pointers, lengths, formats in
                PQsendQueryPrepared(handle, name, Int32(step.parameters.count), pointers, lengths, formats, 1)
            }
            guard isSent == 1 else { throw broken() }
            sent.append(nil)
        }
        guard PQpipelineSync(handle) == 1 else { throw broken() }
        pipelinesUnderWay += 1
        return sent
    }

    /// Takes the results of the pipeline that was sent first.
    /// - Throws: if the connection has broken; the failure of a statement is the result.
    private func take(
        _ sent: Sent, until deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> Result<[PostgresRows], PostgresError> {
        var rows: [PostgresRows] = [], failure: PostgresError?, sent = sent[...]
        while true {
            guard let result = try pipelineResult(until: deadline) else { continue }
            let status = PQresultStatus(result)
            if status == PGRES_PIPELINE_SYNC {
                PQclear(result)
                pipelinesUnderWay -= 1
                return failure.map { .failure($0) } ?? .success(rows)
            }
            let preparing = sent.popFirst() ?? nil
            switch status {
            case PGRES_TUPLES_OK, PGRES_COMMAND_OK:
                if preparing == nil { rows.append(PostgresRows(result)) } else { PQclear(result) }
            default:
                if status != PGRES_PIPELINE_ABORTED { failure = failure ?? Self.error(of: result) }
                if let preparing { prepared[preparing] = nil }
                PQclear(result)
            }
        }
    }

    /// - Returns: the next result; nil between the results of two statements.
    private func pipelineResult(until deadline: ContinuousClock.Instant) throws(PostgresError) -> OpaquePointer? {
        while true {
            let state = PQflush(handle)
            guard state >= 0 else { throw broken() }
            guard PQisBusy(handle) == 1 else { break }
            guard try wait(forWriting: state == 1, until: deadline) else {
                close()
                throw PostgresError(.timedOut, "no answer within \(seconds) s")
            }
            guard PQconsumeInput(handle) == 1 else { throw broken() }
        }
        if let result = PQgetResult(handle) { return result }
        guard isOpen else { throw broken() }
        return nil
    }
}
#endif
