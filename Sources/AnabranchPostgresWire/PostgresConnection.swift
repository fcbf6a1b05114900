#if canImport(CLibPQ)
import CLibPQ
import Foundation

/// A connection to PostgreSQL whose every step has a deadline. It is used by one thread at a time, which it blocks.
///
///     let connection = try PostgresConnection("postgres://127.0.0.1/app")
///     let rows = try connection.query("SELECT title FROM note WHERE id = $1", [7])
public final class PostgresConnection {
    var handle: OpaquePointer?
    /// The names of the statements that the server has prepared for pipelines, by their texts.
    var prepared: [String: String] = [:]
    var preparedCount = 0
    /// The pipelines that were sent and whose results nobody has taken.
    var pipelinesUnderWay = 0
    /// The time that a statement may take, in seconds: from 0.001 to 86,400. When it is up the statement is cancelled.
    public var seconds: Double

    private static let secondsRange = 0.001...86_400.0
    /// The time in which a server says that it has cancelled a statement.
    private static let cancelSeconds = 5.0

    /// Connects.
    ///
    /// - Parameters:
    ///   - target: a connection string of libpq, or a `postgres://` URI. The name of a host is looked up without a
    ///     deadline; an address is not. Of several servers each gets an equal part of the time that is left.
    ///   - seconds: the time that connecting may take, and then each statement; from 0.001 to 86,400.
    /// - Throws: `PostgresError` with the code `unreachable` or `timedOut`.
    public init(_ target: String, seconds: Double = 30) throws(PostgresError) {
        self.seconds = min(max(seconds, Self.secondsRange.lowerBound), Self.secondsRange.upperBound)
        let end = Self.deadline(self.seconds)
        var servers = Self.servers(of: target)[...]
        while let server = servers.popFirst() {
            do throws(PostgresError) {
                try connect(to: server, until: .now + (end - .now) / (servers.count + 1))
                return
            } catch {
                if servers.isEmpty { throw error }
            }
        }
    }

    /// A connection string for each of the servers that one names: libpq would wait for the first one for ever.
    private static func servers(of target: String) -> [String] {
        guard let options = PQconninfoParse(target, nil) else { return [target] }
        defer { PQconninfoFree(options) }
        var settings: [String: String] = [:], next = options
        while let name = next.pointee.keyword {
            if let value = next.pointee.val { settings[String(cString: name)] = String(cString: value) }
            next += 1
        }
        func list(_ name: String) -> [String]? {
            settings[name]?.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        }
        let names = list("host"), addresses = list("hostaddr"), ports = list("port") ?? []
        let count = names?.count ?? addresses?.count ?? 1
        guard count > 1, (addresses?.count ?? count) == count, ports.count < 2 || ports.count == count else {
            return [target]
        }
        return (0..<count).map { index in
            var settings = settings
            settings["host"] = names?[index]
            settings["hostaddr"] = addresses?[index]
            if ports.count > 1 { settings["port"] = ports[index] }
            return settings.map { name, value in
                let escaped = value.replacing("\\", with: "\\\\").replacing("'", with: "\\'")
                return "\(name)='\(escaped)'"
            }.joined(separator: " ")
        }
    }

    private func connect(to target: String, until deadline: ContinuousClock.Instant) throws(PostgresError) {
        guard let handle = PQconnectStart(target) else { throw PostgresError(.unreachable, "out of memory") }
        self.handle = handle
        do throws(PostgresError) {
            var step = PGRES_POLLING_WRITING
            while step != PGRES_POLLING_OK {
                guard PQstatus(handle) != CONNECTION_BAD, step != PGRES_POLLING_FAILED else { throw broken() }
                guard try wait(forWriting: step == PGRES_POLLING_WRITING, until: deadline) else {
                    throw PostgresError(.timedOut, "no connection within \(self.seconds) s")
                }
                step = PQconnectPoll(handle)
            }
            guard PQsetnonblocking(handle, 1) == 0 else { throw broken() }
        } catch {
            close()
            throw error
        }
        PQsetNoticeProcessor(handle, { _, _ in }, nil)
    }

    deinit { close() }

    /// Closes the connection. Statements throw from now on.
    public func close() {
        if let handle { PQfinish(handle) }
        handle = nil
    }

    /// True unless the connection has broken or was closed.
    public var isOpen: Bool { handle != nil && PQstatus(handle) == CONNECTION_OK }

    /// Makes another thread able to cancel the statement that runs; nil if the connection is closed.
    public var cancellation: PostgresCancellation? { handle.flatMap(PQgetCancel).map(PostgresCancellation.init) }

    // MARK: Statements

    /// Carries out one statement.
    ///
    /// - Parameters:
    ///   - sql: the statement, with `$1` and so on for parameters.
    ///   - parameters: at most 65,535.
    ///   - isBinary: true for values in binary form.
    /// - Throws: `PostgresError`.
    @discardableResult public func query(
        _ sql: String, _ parameters: [PostgresValue] = [], isBinary: Bool = false
    ) throws(PostgresError) -> PostgresRows {
        let deadline = Self.deadline(seconds)
        try send(sql, parameters, isBinary)
        guard let last = try results(until: deadline) else { throw PostgresError(.refused, "the statement is empty") }
        return last
    }

    /// Carries out several statements without parameters, together unless they say otherwise.
    /// - Throws: `PostgresError` of the first that fails.
    public func execute(_ script: String) throws(PostgresError) {
        let deadline = Self.deadline(seconds)
        guard PQsendQuery(handle, script) == 1 else { throw broken() }
        _ = try results(until: deadline)
    }

    /// Carries out a statement and calls `body` with each row, which has the number 0, while others are under way.
    /// - Throws: `PostgresError`; what `body` throws, after the other rows were passed over.
    public func forEachRow(_ sql: String, _ parameters: [PostgresValue] = [], _ body: (PostgresRows) throws -> Void)
        throws
    {
        try send(sql, parameters, false)
        PQsetSingleRowMode(handle)
        var failure: (any Error)?
        while let rows = try next(until: Self.deadline(seconds)) {
            if failure == nil, rows.count > 0 { do { try body(rows) } catch { failure = error } }
        }
        if let failure { throw failure }
    }

    private func send(_ sql: String, _ parameters: [PostgresValue], _ isBinary: Bool) throws(PostgresError) {
        guard parameters.count <= Int(UInt16.max) else { throw PostgresError(.refused, "too many parameters") }
        let isSent = Self.withValues(of: parameters) { pointers, lengths, formats in
            PQsendQueryParams(
                handle, sql, Int32(parameters.count), nil, pointers, lengths, formats, isBinary ? 1 : 0)
        }
        guard isSent == 1 else { throw broken() }
    }

    /// Calls `body` with parameters as the library takes them.
    static func withValues(
        of parameters: [PostgresValue], _ body: ([UnsafePointer<CChar>?], [Int32], [Int32]) -> Int32
    ) -> Int32 {
        let contents = parameters.map(\.content)
        let lengths = parameters.map { $0.isBinary ? Int32(clamping: $0.content?.count ?? 0) : 0 }
        let formats: [Int32] = parameters.map { $0.isBinary ? 1 : 0 }
        // One block has all of them, so that their addresses stay.
        var block: [UInt8] = []
        block.reserveCapacity(contents.reduce(0) { $0 + ($1?.count ?? 0) + 1 })
        let starts = contents.map { content -> Int? in
            guard let content else { return nil }
            defer { block += content.isEmpty ? [0] : content }
            return block.count
        }
        return block.withUnsafeBytes { bytes in
            let pointers = starts.map { start in
                start.flatMap { bytes.baseAddress?.advanced(by: $0).assumingMemoryBound(to: CChar.self) }
            }
            return body(pointers, lengths, formats)
        }
    }

    /// - Returns: the last of the results.
    private func results(until deadline: ContinuousClock.Instant) throws(PostgresError) -> PostgresRows? {
        var last: PostgresRows?
        while let rows = try next(until: deadline) { last = rows }
        return last
    }

    /// - Returns: the next result; nil if the statements are done.
    private func next(until deadline: ContinuousClock.Instant) throws(PostgresError) -> PostgresRows? {
        guard let result = try nextResult(until: deadline) else { return nil }
        switch PQresultStatus(result) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_SINGLE_TUPLE, PGRES_EMPTY_QUERY: return PostgresRows(result)
        case PGRES_COPY_IN:
            PQclear(result)
            PQputCopyEnd(handle, "COPY is not possible here")
            throw try failure(PostgresError(.refused, "COPY is not possible here"), until: deadline)
        case PGRES_COPY_OUT, PGRES_COPY_BOTH:
            // The rest is not read: the connection cannot be used any more.
            PQclear(result)
            close()
            throw PostgresError(.refused, "COPY is not possible here")
        default:
            let error = Self.error(of: result)
            PQclear(result)
            throw try failure(error, until: deadline)
        }
    }

    /// Reads to the end of the statements, so that the connection can be used, and returns the error.
    private func failure(_ error: PostgresError, until deadline: ContinuousClock.Instant) throws(PostgresError)
        -> PostgresError
    {
        while let result = try nextResult(until: deadline) {
            let status = PQresultStatus(result)
            PQclear(result)
            if status == PGRES_COPY_IN { PQputCopyEnd(handle, "COPY is not possible here") }
        }
        if PQstatus(handle) == CONNECTION_BAD { throw broken() }
        return error
    }

    private func nextResult(until deadline: ContinuousClock.Instant) throws(PostgresError) -> OpaquePointer? {
        try flush(until: deadline)
        while PQisBusy(handle) == 1 {
            guard try wait(forWriting: false, until: deadline) else { throw timeIsUp() }
            guard PQconsumeInput(handle) == 1 else { throw broken() }
        }
        return PQgetResult(handle)
    }

    /// Sends the buffered output, and reads what arrives during that, so that the server does not wait for us.
    func flush(until deadline: ContinuousClock.Instant) throws(PostgresError) {
        while true {
            let state = PQflush(handle)
            if state == 0 { return }
            guard state == 1 else { throw broken() }
            guard try wait(forWriting: true, until: deadline) else { throw timeIsUp() }
            guard PQconsumeInput(handle) == 1 else { throw broken() }
        }
    }

    // MARK: Copying

    /// Carries out `COPY … FROM STDIN`.
    ///
    /// - Parameters:
    ///   - sql: the statement.
    ///   - next: returns the bytes that come next, nil at the end. What it throws undoes the statement.
    /// - Returns: the number of rows.
    /// - Throws: `PostgresError`; what `next` throws.
    @discardableResult public func copyIn(_ sql: String, _ next: () throws -> [UInt8]?) throws -> Int {
        try beginCopy(sql, PGRES_COPY_IN)
        do {
            while let bytes = try next() {
                try bytes.withUnsafeBufferPointer { buffer in
                    try buffer.withMemoryRebound(to: CChar.self) { chars in
                        while true {
                            let state = PQputCopyData(handle, chars.baseAddress, Int32(clamping: chars.count))
                            if state == 1 { break }
                            guard state == 0 else { throw broken() }
                            guard try wait(forWriting: true, until: Self.deadline(seconds)) else { throw timeIsUp() }
                            guard PQconsumeInput(handle) == 1 else { throw broken() }
                        }
                    }
                }
                try flush(until: Self.deadline(seconds))
            }
        } catch {
            if isOpen {
                PQputCopyEnd(handle, "given up")
                do throws(PostgresError) { _ = try results(until: Self.deadline(seconds)) } catch {
                    if error.code == .unreachable { throw error }
                }
            }
            throw error
        }
        guard PQputCopyEnd(handle, nil) >= 0 else { throw broken() }
        return try results(until: Self.deadline(seconds))?.affected ?? 0
    }

    /// Carries out `COPY … TO STDOUT` and calls `body` with each row as it comes.
    /// - Throws: `PostgresError`; what `body` throws, after which the connection cannot be used any more.
    public func copyOut(_ sql: String, _ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        try beginCopy(sql, PGRES_COPY_OUT)
        while true {
            var row: UnsafeMutablePointer<CChar>?
            let length = PQgetCopyData(handle, &row, 1)
            if length > 0, let row {
                defer { PQfreemem(row) }
                do { try body(UnsafeRawBufferPointer(start: row, count: Int(length))) } catch {
                    close()
                    throw error
                }
            } else if length == 0 {
                guard try wait(forWriting: false, until: Self.deadline(seconds)) else { throw timeIsUp() }
                guard PQconsumeInput(handle) == 1 else { throw broken() }
            } else {
                _ = try results(until: Self.deadline(seconds))
                return
            }
        }
    }

    private func beginCopy(_ sql: String, _ status: ExecStatusType) throws(PostgresError) {
        let deadline = Self.deadline(seconds)
        guard PQsendQuery(handle, sql) == 1 else { throw broken() }
        guard let result = try nextResult(until: deadline) else { throw PostgresError(.refused, "no COPY") }
        let found = PQresultStatus(result), error = Self.error(of: result)
        PQclear(result)
        guard found != status else { return }
        if found == PGRES_FATAL_ERROR { throw try failure(error, until: deadline) }
        if found == PGRES_COPY_IN { PQputCopyEnd(handle, "not asked for") } else if found == PGRES_COPY_OUT { close() }
        throw try failure(PostgresError(.refused, "the statement is no such COPY"), until: deadline)
    }

    // MARK: Waiting

    static func deadline(_ seconds: Double) -> ContinuousClock.Instant { .now + .seconds(seconds) }

    /// - Returns: false if the time is up.
    func wait(forWriting: Bool, until deadline: ContinuousClock.Instant) throws(PostgresError) -> Bool {
        let socket = PQsocket(handle)
        guard socket >= 0 else { throw broken() }
        var entry = pollfd(fd: socket, events: Int16(POLLIN) | (forWriting ? Int16(POLLOUT) : 0), revents: 0)
        while true {
            let left = deadline - .now
            guard left > .zero else { return false }
            let milliseconds = Int32(
                clamping: left.components.seconds * 1000 + 1 + left.components.attoseconds / 1_000_000_000_000_000)
            let found = poll(&entry, 1, milliseconds)
            if found > 0 { return true }
            if found < 0, errno != EINTR { throw broken() }
        }
    }

    /// Cancels the statement that runs. If the server does not say that it has, the connection is closed.
    private func timeIsUp() -> PostgresError {
        let error = PostgresError(.timedOut, "no answer within \(seconds) s")
        let deadline = Self.deadline(Self.cancelSeconds)
        let cancellation = cancellation, isCancelled = DispatchSemaphore(value: 0)
        // A server that was stopped takes it and never says so, and the library waits for that without a deadline.
        Thread.detachNewThread {
            cancellation?.cancel()
            isCancelled.signal()
        }
        if isCancelled.wait(timeout: .now() + Self.cancelSeconds) == .timedOut { close() }
        while let handle {
            if PQisBusy(handle) == 0 {
                guard let result = PQgetResult(handle) else { return error }
                let status = PQresultStatus(result)
                PQclear(result)
                if [PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH].contains(status) { close() }
                continue
            }
            guard let isReady = try? wait(forWriting: false, until: deadline), isReady, PQconsumeInput(handle) == 1
            else {
                close()
                return error
            }
        }
        return error
    }

    // MARK: Errors

    func broken() -> PostgresError {
        guard let handle else { return PostgresError(.unreachable, "the connection is closed") }
        let reason = String(cString: PQerrorMessage(handle)).trimmed
        let isBad = PQstatus(handle) == CONNECTION_BAD
        return PostgresError(isBad ? .unreachable : .refused, reason.isEmpty ? "the connection has broken" : reason)
    }

    static func error(of result: OpaquePointer) -> PostgresError {
        func field(_ code: Character) -> String? {
            PQresultErrorField(result, Int32(code.asciiValue ?? 0)).map { String(cString: $0) }
        }
        let message = field("M") ?? String(cString: PQresultErrorMessage(result)).trimmed
        let state = field("C")
        // Class 57P is a server that goes down, class 08 a connection that breaks.
        let isLost = state.map { $0.hasPrefix("57P") || $0.hasPrefix("08") } ?? true
        return PostgresError(
            state == "57014" ? .timedOut : isLost ? .unreachable : .refused,
            field("D").map { "\(message): \($0)" } ?? message, message: message, state: state, constraint: field("n"))
    }
}

extension String {
    fileprivate var trimmed: String { split(separator: "\n").joined(separator: "; ") }
}
#endif
