/// The content of a LOG_MESSAGE to a client (`Spec/Protocol.md`, section 5.7): a line for its log.
public struct LogMessage: Equatable, Sendable {
    /// How much the line matters, the most important first.
    public enum Level: String, CaseIterable, Sendable {
        /// The names are those of the wire.
        case fatal, error, warn, info, detail, debug, trace
    }

    /// How much it matters.
    public var level: Level
    /// The line.
    public var message: String
    /// The name of the connection in the server's log; clients put it in front of their own lines.
    public var connectionIdent: String

    /// A line for the log of one client.
    public init(level: Level = .info, message: String = "", connectionIdent: String = "") {
        self.level = level
        self.message = message
        self.connectionIdent = connectionIdent
    }
}

// MARK: - JSON

extension LogMessage {
    var json: [UInt8] {
        var json = JSONObject()
        if !message.isEmpty { json.add("msg", message) }
        json.add("level", level.rawValue)
        if !connectionIdent.isEmpty { json.add("co_id", connectionIdent) }
        return json.bytes
    }

    init(_ json: JSONMembers) throws(ProtocolError) {
        message = json.has("msg") ? try json.text("msg") : ""
        connectionIdent = json.has("co_id") ? try json.text("co_id") : ""
        guard json.has("level") else {
            level = .debug
            return
        }
        let known = Level(rawValue: try json.text("level"))
        guard known != nil || message.isEmpty else { throw json.error("level") }
        level = known ?? .debug
    }
}
