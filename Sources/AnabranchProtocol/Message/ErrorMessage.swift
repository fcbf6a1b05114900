public import AnabranchCore

/// The content of a server's JSON_ERROR (`Spec/Protocol.md`, section 5.6).
public struct ErrorMessage: Error, Equatable, Sendable {
    /// The code, which also says whether the connection or the session ends.
    public var code: ErrorCode
    /// Text for the application.
    public var message: String
    /// A link for the developer; may be empty.
    public var logURL = ""
    /// The action that the client takes.
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

    init(_ error: ProtocolError) { self.init(error.code, error.reason) }

    /// A received error, with any code, whose text is the name of the code.
    init(received code: ErrorCode, action: ErrorCode.Action, triesAgain: Bool) {
        (self.code, self.action, self.triesAgain) = (code, action, triesAgain)
        message = code.name
    }

    /// True if the client suspends the session, or closes the connection, upon it. A compensating write is only a
    /// notification.
    var isFinal: Bool { code != .compensatingWrite }

    /// Writes that the server undid (section 7.4).
    public struct Rejection: Equatable, Sendable {
        /// The client version whose writes were undone.
        public var clientVersion: ClientVersion
        /// The server version that contains the undo: needed for code 231.
        public var serverVersion: ServerVersion?
        /// The objects that were written to.
        public var updates: [Update]

        /// The undo of these writes.
        public init(clientVersion: ClientVersion, serverVersion: ServerVersion? = nil, updates: [Update]) {
            self.clientVersion = clientVersion
            self.serverVersion = serverVersion
            self.updates = updates
        }

        /// A write to one object.
        public struct Update: Equatable, Sendable {
            /// The reason why it was undone, for the application.
            public var reason: String
            /// The class of the object.
            public var table: String
            /// Base64 of the type tag and value of the primary key, as a changeset has them.
            public var primaryKey: String

            /// A write that was undone, with its key as Base64.
            public init(reason: String, table: String, primaryKey: String) {
                self.reason = reason
                self.table = table
                self.primaryKey = primaryKey
            }

            /// A write to the object of this key.
            public init(reason: String, table: String, key: PrimaryKey) {
                self.init(reason: reason, table: table, primaryKey: Base64.encode(key.payload))
            }

            /// The primary key; nil if it is not valid, upon which a client ends its session.
            public var key: PrimaryKey? { Base64.decode(primaryKey.utf8).flatMap { PrimaryKey(payload: $0) } }
        }
    }

    /// The message in the form for a client of this version. Clients below version 7 know no actions, and delete their
    /// file without a backup upon 206 (section 7.1), so they get another code.
    func adapted(to version: ProtocolVersion) -> ErrorMessage {
        guard code == .permissionDenied, !version.hasErrorActions, action != .deleteRealm else { return self }
        var milder = self
        milder.code = .otherSessionError
        return milder
    }
}

// MARK: - JSON

extension ErrorMessage {
    func json(in dialect: WireDialect) -> [UInt8] {
        var json = JSONObject()
        json.add("tryAgain", triesAgain)
        json.add("message", message)
        json.add("logURL", logURL)
        json.add("shouldClientReset", action.requestsClientReset)
        json.add("isRecoveryModeDisabled", action == .clientResetNoRecovery)
        json.add("action", action == .deleteRealm ? dialect.deleteAction : action.rawValue)
        if let backOff {
            json.add("backoffIntervalSec", backOff.firstSeconds)
            json.add("backoffMaxDelaySec", backOff.maxSeconds)
            json.add("backoffMultiplier", backOff.multiplier)
        }
        if let rejection {
            json.add("rejectedUpdates", rejection.updates.map(\.json))
            json.add("rejectedClientVersion", rejection.clientVersion.rawValue)
            if let version = rejection.serverVersion {
                json.add("compensatingWriteServerVersion", version.rawValue)
            }
        }
        return json.bytes
    }

    /// An error as it was received, with any code. The keys for old clients only have to be there.
    init(_ code: ErrorCode, _ json: JSONMembers) throws(ProtocolError) {
        self.code = code
        triesAgain = try json.flag("tryAgain")
        message = try json.text("message")
        logURL = try json.text("logURL")
        _ = try json.flag("shouldClientReset")
        _ = try json.flag("isRecoveryModeDisabled")
        action = ErrorCode.Action(rawValue: try json.text("action")) ?? .applicationBug
        if json.has("backoffIntervalSec") {
            backOff = BackOff(
                firstSeconds: try json.number("backoffIntervalSec"), maxSeconds: try json.number("backoffMaxDelaySec"),
                multiplier: try json.number("backoffMultiplier"))
        }
        if json.has("rejectedUpdates") {
            var updates: [Rejection.Update] = []
            for update in try json.objects("rejectedUpdates") { updates.append(try Rejection.Update(update)) }
            rejection = Rejection(clientVersion: try json.version("rejectedClientVersion"), updates: updates)
            if json.has("compensatingWriteServerVersion") {
                rejection?.serverVersion = try json.version("compensatingWriteServerVersion")
            }
        }
    }
}

extension ErrorMessage.Rejection.Update {
    fileprivate var json: JSONObject {
        var json = JSONObject()
        json.add("reason", reason)
        json.add("table", table)
        json.add("pk", primaryKey)
        return json
    }

    fileprivate init(_ json: JSONMembers) throws(ProtocolError) {
        self.init(reason: try json.text("reason"), table: try json.text("table"), primaryKey: try json.text("pk"))
    }
}
