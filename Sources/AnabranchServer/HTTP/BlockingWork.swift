import AnabranchHistory
import Logging
import NIOPosix

/// Runs the work of endpoints that blocks, such as calls of stores, on threads that may block.
struct BlockingWork: Sendable {
    let logger: Logger
    /// The log's message if the work cannot be done.
    let failureMessage: Logger.Message
    /// The threads, which are started and stay.
    var threads = NIOThreadPool.singleton

    /// - Parameter refusal: the response to an error that is not the server's own failure.
    func run<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result, refusal: (any Error) -> HTTPError? = { _ in nil }
    ) async throws(HTTPError) -> Result {
        do {
            return try await threads.runIfActive(work)
        } catch {
            throw refusal(error) ?? internalError(error)
        }
    }

    /// Logs failures of the server's own; that a client has gone is none.
    /// - Returns: the response, which tells nothing about it.
    func internalError(_ error: any Error) -> HTTPError {
        if error is CancellationError { return .unavailable }
        let text = (error as? HistoryError)?.withWireCode ?? "\(error)"
        logger.error(failureMessage, metadata: ["error": "\(text)"])
        return .unavailable
    }
}
