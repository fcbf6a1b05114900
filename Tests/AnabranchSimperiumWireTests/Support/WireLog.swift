import Logging
import Synchronization

/// The messages of a server's log.
final class WireLog: Sendable {
    private let written = Mutex<[String]>([])

    var messages: [String] { written.withLock { $0 } }

    var logger: Logger { Logger(label: "test") { [self] _ in Handler(owner: self) } }

    private struct Handler: LogHandler {
        let owner: WireLog
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { owner.written.withLock { $0.append("\(event.message)") } }
    }
}
