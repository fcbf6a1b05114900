import AnabranchCore

/// What a JSON_ERROR tells a client (`Spec/Protocol.md`, section 5.6).
public struct ErrorMessage: Error, Equatable, Sendable {
    public var code: ErrorCode
    /// Text for the application.
    public var message: String
    /// A link for the developer; may be empty.
    public var logURL = ""
    public var action: ErrorCode.Action
    /// Not fatal: the session resumes, or the connection is made again, after a delay.
    public var triesAgain: Bool
    /// Replaces the client's own delays.
    public var backOff: BackOff?
    /// Codes 230 and 231: the writes that the server undid.
    public var rejection: Rejection?

    /// The name of the code and, in parentheses, the detail; action and `triesAgain` as the table of codes advises.
    ///
    /// - Precondition: the code may be sent.
    public init(_ code: ErrorCode, _ detail: String = "") {
        precondition(code.isSendable, "\(code) must not be sent to a client")
        self.code = code
        message = detail.isEmpty ? code.name : "\(code.name) (\(detail))"
        action = code.action
        triesAgain = code.triesAgain
    }

    init(_ violation: ProtocolViolation) { self.init(violation.code, violation.reason) }

    /// Whether the client suspends the session, or closes the connection, upon it. A compensating write is news only.
    var isFinal: Bool { code != .compensatingWrite }

    /// Writes that the server undid (section 7.4).
    public struct Rejection: Equatable, Sendable {
        /// The client version whose writes were undone.
        public var clientVersion: ClientVersion
        /// The server version that contains the undo: needed for code 231.
        public var serverVersion: ServerVersion?
        public var updates: [Update]

        public init(clientVersion: ClientVersion, serverVersion: ServerVersion? = nil, updates: [Update]) {
            self.clientVersion = clientVersion
            self.serverVersion = serverVersion
            self.updates = updates
        }

        public struct Update: Equatable, Sendable {
            public var reason: String
            /// The class of the object.
            public var table: String
            /// Base64 of the type tag and value of the primary key, as a changeset has them.
            public var primaryKey: String

            public init(reason: String, table: String, primaryKey: String) {
                self.reason = reason
                self.table = table
                self.primaryKey = primaryKey
            }

            fileprivate var json: JSONObject {
                var json = JSONObject()
                json.add("reason", reason)
                json.add("table", table)
                json.add("pk", primaryKey)
                return json
            }
        }
    }

    /// The message as a client of this version may see it. Clients below version 7 that know no action delete their
    /// file without backup upon 206 (section 7.1), so they are told less.
    func adapted(to version: ProtocolVersion) -> ErrorMessage {
        guard code == .permissionDenied, !version.hasErrorActions, action != .deleteRealm else { return self }
        var milder = self
        milder.code = .otherSessionError
        return milder
    }

    var json: [UInt8] {
        var json = JSONObject()
        json.add("tryAgain", triesAgain)
        json.add("message", message)
        json.add("logURL", logURL)
        json.add("shouldClientReset", action.requestsClientReset)
        json.add("isRecoveryModeDisabled", action == .clientResetNoRecovery)
        json.add("action", action.rawValue)
        if let backOff {
            json.add("backoffIntervalSec", backOff.firstSeconds)
            json.add("backoffMaxDelaySec", backOff.maxSeconds)
            json.add("backoffMultiplier", backOff.multiplier)
        }
        if let rejection {
            json.add("rejectedUpdates", rejection.updates.map(\.json))
            json.add("rejectedClientVersion", rejection.clientVersion.rawValue)
            if let version = rejection.serverVersion { json.add("compensatingWriteServerVersion", version.rawValue) }
        }
        return json.bytes
    }
}

/// What a LOG_MESSAGE tells a client (section 5.7): a line for its log.
public struct LogMessage: Equatable, Sendable {
    public enum Level: String, Sendable {
        case fatal, error, warn, info, detail, debug, trace
    }

    public var level: Level
    public var message: String
    /// The name of the connection in the server's log; clients put it before the lines of theirs.
    public var connectionIdent: String

    public init(level: Level = .info, message: String = "", connectionIdent: String = "") {
        self.level = level
        self.message = message
        self.connectionIdent = connectionIdent
    }

    var json: [UInt8] {
        var json = JSONObject()
        if !message.isEmpty { json.add("msg", message) }
        json.add("level", level.rawValue)
        if !connectionIdent.isEmpty { json.add("co_id", connectionIdent) }
        return json.bytes
    }
}
