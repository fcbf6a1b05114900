import Foundation
import Logging

/// The form of a log entry as a line: the time in UTC, the level, the message, and the metadata.
enum LogFormat: String, CaseIterable {
    /// For people: `TIME LEVEL MESSAGE name=value name="two words"`, in the order of the names.
    case text
    /// For programs: an object whose members are strings; `time`, `level` and `message` are three of them.
    case json

    private static let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

    func handler() -> any LogHandler { LineLogHandler(format: self, stream: LogStream()) }

    fileprivate func line(_ message: String, _ level: Logger.Level, _ metadata: [String: String]) -> String {
        let time = Date().formatted(Self.style)
        switch self {
        case .text:
            let pairs = metadata.sorted { $0.key < $1.key }.map { " \($0)=\(Self.quoted($1))" }
            return "\(time) \(level) \(message)\(pairs.joined())"
        case .json:
            let all = metadata.merging(["time": time, "level": level.rawValue, "message": message]) { $1 }
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return (try? encoder.encode(all)).map { String(decoding: $0, as: UTF8.self) } ?? message
        }
    }

    /// The value, in quotes if it could not be told from the following text.
    private static func quoted(_ value: String) -> String {
        guard value.isEmpty || value.hasPrefix("\"") || value.contains(where: \.isWhitespace) else { return value }
        return "\"" + value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }
}

/// Writes each entry as a line.
struct LineLogHandler: LogHandler {
    var metadata = Logger.Metadata()
    var metadataProvider: Logger.MetadataProvider?
    var logLevel = Logger.Level.info
    private let format: LogFormat
    private let stream: any TextOutputStream & Sendable

    init(format: LogFormat, stream: any TextOutputStream & Sendable) {
        self.format = format
        self.stream = stream
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = metadata.merging(metadataProvider?.get() ?? [:]) { $1 }.merging(event.metadata ?? [:]) { $1 }
        var stream = stream
        stream.write(format.line(event.message.description, event.level, all.mapValues { "\($0)" }))
    }
}
