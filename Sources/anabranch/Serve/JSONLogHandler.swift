import Foundation
import Logging

/// In what form the log is written.
enum LogFormat: String, CaseIterable {
    /// For people: what belongs to a message stands before it.
    case text
    /// For programs: an object a line.
    case json

    func handler(_ label: String) -> any LogHandler {
        switch self {
        case .text: StreamLogHandler(label: label, stream: LogStream())
        case .json: JSONLogHandler(stream: LogStream())
        }
    }
}

/// Writes entries as JSON, one a line: `time` in UTC, `level` and `message`, and what belongs to the message as members
/// of their own, as texts.
struct JSONLogHandler: LogHandler {
    private static let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

    var metadata = Logger.Metadata()
    var metadataProvider: Logger.MetadataProvider?
    var logLevel = Logger.Level.info
    let stream: any TextOutputStream & Sendable

    init(stream: any TextOutputStream & Sendable) { self.stream = stream }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = metadata.merging(metadataProvider?.get() ?? [:]) { $1 }.merging(event.metadata ?? [:]) { $1 }
        var members = all.mapValues { "\($0)" }
        members["time"] = Date().formatted(Self.style)
        members["level"] = event.level.rawValue
        members["message"] = event.message.description
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let line = try? encoder.encode(members) else { return }
        var stream = stream
        stream.write(String(decoding: line, as: UTF8.self))
    }
}
