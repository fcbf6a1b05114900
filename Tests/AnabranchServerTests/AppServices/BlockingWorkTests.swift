import Logging
import Testing

@testable import AnabranchServer

@Suite struct BlockingWorkTests {
    /// A request whose client has gone is no failure of the server.
    @Test func whatIsCancelledIsNotLogged() async {
        let log = LogLines(), work = BlockingWork(logger: log.logger, failureMessage: "not available")
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await work.run {}
        }
        await #expect(throws: HTTPError.self) { try await task.value }
        #expect(log.text.isEmpty)
    }
}
