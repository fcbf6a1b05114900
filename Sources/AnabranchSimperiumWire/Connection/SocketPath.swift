import AnabranchCore

/// The path of a WebSocket (`Spec/Simperium.md`, sections 8 and 13).
struct SocketPath: Equatable {
    /// How messages lie in those of the WebSocket.
    enum Framing {
        case plain
        /// Several in a JSON array, as SockJS has them.
        case sockJS
    }

    /// The app that the path names; empty if it names none.
    let app: String
    let framing: Framing

    /// - Returns: nil if the path does not belong to this wire.
    init?(_ path: String) {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
        switch parts.count {
        case 2 where parts == ["sock", "websocket"]: (app, framing) = ("", .plain)
        case 4 where parts[0...1] == ["sock", "1"] && parts[3] == "websocket" && !parts[2].isEmpty:
            (app, framing) = (parts[2], .plain)
        // The names of the server and of the session mean nothing here.
        case 6 where parts[0...1] == ["sock", "1"] && parts[5] == "websocket" && !parts[2].isEmpty:
            guard parts[3...4].allSatisfy({ !$0.isEmpty && !$0.contains(".") }) else { return nil }
            (app, framing) = (parts[2], .sockJS)
        default: return nil
        }
    }
}

/// The frames of SockJS over a WebSocket.
enum SockJSFrame {
    static let opening = "o"
    static let heartbeat = "h"
    /// How often the server sends a heartbeat.
    static let heartbeatInterval = Duration.seconds(25)

    static func message(_ text: String) -> String { "a[\(JSONValue.string(text).encoded)]" }

    static func closing(_ reason: String) -> String { "c[3000,\(JSONValue.string(reason).encoded)]" }

    /// The most messages of one frame. Its clients send them one by one.
    static let messagesMax = 10_000

    /// The messages in what a client sends: a list of texts, or one text.
    /// - Returns: nil if it is neither, or has too many.
    static func messages(in text: String) -> [String]? {
        if text.isEmpty { return [] }
        // The list is a value as well.
        guard
            let json = try? JSONValue(
                parsing: text.utf8, depthMax: 2, valuesMax: messagesMax + 1, replacesHalves: true)
        else { return nil }
        let messages = (json.array ?? [json]).map(\.string)
        return messages.contains(nil) ? nil : messages.compactMap { $0 }
    }
}
