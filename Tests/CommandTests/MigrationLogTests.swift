import Foundation
import Logging
import Synchronization
import Testing

@testable import AnabranchSQLite
@testable import anabranch

/// What the log says of a migration.
@Suite struct MigrationLogTests {
    private final class Messages: Sendable {
        private let texts = Mutex<[String]>([])
        var all: [String] { texts.withLock { $0 } }
        func append(_ text: String) { texts.withLock { $0.append(text) } }
    }

    private struct Handler: LogHandler {
        let messages: Messages
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let details = (event.metadata ?? [:]).map { "\($0): \($1)" }.sorted().joined(separator: ", ")
            messages.append("\(event.message); \(details)")
        }
    }

    /// - Parameter times: when each step is noted, in milliseconds; all at once unless it is given.
    private static func messages(_ progress: [StoreMigrationProgress], at times: [Int] = []) -> [String] {
        let messages = Messages(), start = ContinuousClock.now
        var now = start
        let logger = Logger(label: "test") { _ in Handler(messages: messages) }
        var log = MigrationLog(logger) { now }
        for (index, progress) in progress.enumerated() {
            if index < times.count { now = start + .milliseconds(times[index]) }
            log.note(progress)
        }
        return messages.all
    }

    private static func progress(_ files: Int, of fileTotal: Int, isDone: Bool = false) -> StoreMigrationProgress {
        var progress = StoreMigrationProgress(fileTotal: fileTotal, byteTotal: UInt64(fileTotal) * 100)
        (progress.fileCount, progress.bytes, progress.isDone) = (files, UInt64(files) * 100, isDone)
        return progress
    }

    @Test func theBeginningAndTheEndAreLogged() {
        let steps = [Self.progress(0, of: 2), Self.progress(2, of: 2), Self.progress(2, of: 2, isDone: true)]
        #expect(
            Self.messages(steps + steps.suffix(1)) == [
                "bringing the store to a new format; files: 0 of 2, percent: 0",
                "every file is in the new format; files: 2 of 2, percent: 100",
            ])
    }

    @Test func whatLastsIsLoggedOnceASecond() {
        let steps = [0, 1, 2, 3, 4].map { Self.progress($0, of: 10) }
        let logged = Self.messages(steps, at: [0, 999, 1_000, 1_999, 2_500])
        let expected = [0, 2, 4].map { "bringing the store to a new format; files: \($0) of 10, percent: \($0 * 10)" }
        #expect(logged == expected)
    }

    /// Their number is lost with the table in which they stand.
    @Test func filesOfWhichNobodyKnowsTheNumberAreNotDoneAtOnce() {
        let steps = [Self.progress(0, of: 0), Self.progress(1, of: 0), Self.progress(3, of: 0, isDone: true)]
        #expect(
            Self.messages(steps) == [
                "bringing the store to a new format; files: 0 of 0, percent: 0",
                "every file is in the new format; files: 3 of 3, percent: 100",
            ])
    }
}
