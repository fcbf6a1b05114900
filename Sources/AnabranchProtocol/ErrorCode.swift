/// An error of the wire protocol (`Spec/Protocol.md`, section 7.1): 100 … 199 end a connection, 200 … 299 a session.
///
/// A client may be sent a number that this library does not know; so any number can be a code.
public struct ErrorCode: RawRepresentable, Hashable, Sendable {
    /// The number on the wire.
    public let rawValue: Int

    /// Takes any number.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// The reaction of a client to an error (section 5.6).
    public enum Action: String, Sendable {
        /// Nothing is reported; the session resumes, or the connection is made again, after a delay.
        case transient = "Transient"
        /// It is reported; otherwise as `transient`.
        case warning = "Warning"
        /// The session is inactive until the application opens its file again; it is reported.
        case applicationBug = "ApplicationBug"
        /// As `applicationBug`.
        case protocolViolation = "ProtocolViolation"
        /// The client resets its file, in the way that the application chose.
        case clientReset = "ClientReset"
        /// As `clientReset`, but changes that were not uploaded cannot be recovered.
        case clientResetNoRecovery = "ClientResetNoRecovery"
        /// The local file is deleted without a backup.
        case deleteRealm = "DeleteRealm"
        /// The client asks for a new access token, as after close code 4001.
        case refreshUser = "RefreshUser"
        /// The client asks where the server is, as after close code 4003.
        case refreshLocation = "RefreshLocation"
        /// The client logs its user out, as after close code 4002.
        case logOutUser = "LogOutUser"
        /// The file is to become one of flexible sync.
        case migrateToFlexibleSync = "MigrateToFLX"
        /// The file is to become one of partition-based sync again.
        case revertToPartitionSync = "RevertToPBS"
        /// The client must make its file again, with another version of its schema.
        case migrateSchema = "MigrateSchema"

        /// The value of a separate key that clients before 12.6 look at, which has to agree with the action.
        var requestsClientReset: Bool { self == .clientReset || self == .clientResetNoRecovery }
    }

    /// True if it ends a connection with all its sessions.
    public var isConnectionLevel: Bool { rawValue < 200 }

    /// True if the client may try again without the help of a person. Also true of violations that end a connection:
    /// their action stops the sessions, while `false` would keep the whole process from connecting (section 7.2), which
    /// is right only for a client that no retry can make welcome.
    public var triesAgain: Bool {
        switch self {
        case .wrongProtocolVersion, .switchToFlexibleSync, .switchToPartitionSync: false
        default: isConnectionLevel || action == .transient || action == .warning
        }
    }

    /// True if the number is in the table of codes.
    public var isKnown: Bool { Self.table[self] != nil }

    /// False for codes that abort the client's process, that are no longer known to anybody, or that belong to flexible
    /// sync; and for numbers that are not codes.
    public var isSendable: Bool { Self.table[self]?.action != nil }

    /// A few words for people.
    public var name: String { Self.table[self]?.name ?? "error \(rawValue)" }

    /// The recommended action.
    public var action: Action { Self.table[self]?.action ?? .applicationBug }

    /// The known codes, ascending.
    static var known: [ErrorCode] { table.keys.sorted { $0.rawValue < $1.rawValue } }
}

extension ErrorCode: CustomStringConvertible {
    /// The number and its name.
    public var description: String { "\(rawValue) \(name)" }
}

// MARK: - The table

extension ErrorCode {
    /// 100: connection closed.
    public static let connectionClosed = ErrorCode(rawValue: 100)
    /// 101: other error.
    public static let otherError = ErrorCode(rawValue: 101)
    /// 102: unknown message type.
    public static let unknownMessage = ErrorCode(rawValue: 102)
    /// 103: bad syntax in message head.
    public static let badSyntax = ErrorCode(rawValue: 103)
    /// 104: limits exceeded.
    public static let limitsExceeded = ErrorCode(rawValue: 104)
    /// 105: unsupported protocol version.
    public static let wrongProtocolVersion = ErrorCode(rawValue: 105)
    /// 106: bad session ident.
    public static let badSessionIdent = ErrorCode(rawValue: 106)
    /// 107: overlapping reuse of session ident.
    public static let reuseOfSessionIdent = ErrorCode(rawValue: 107)
    /// 108: client file bound in other session of this connection.
    public static let boundInOtherSession = ErrorCode(rawValue: 108)
    /// 109: bad message order.
    public static let badMessageOrder = ErrorCode(rawValue: 109)
    /// 110: decompression failed.
    public static let badDecompression = ErrorCode(rawValue: 110)
    /// 111: bad changeset header.
    public static let badChangesetHeader = ErrorCode(rawValue: 111)
    /// 112: bad changeset size.
    public static let badChangesetSize = ErrorCode(rawValue: 112)
    /// 113: this server supports flexible sync only.
    public static let switchToFlexibleSync = ErrorCode(rawValue: 113)
    /// 114: this server supports partition-based sync only.
    public static let switchToPartitionSync = ErrorCode(rawValue: 114)

    /// 200: session closed.
    public static let sessionClosed = ErrorCode(rawValue: 200)
    /// 201: session error.
    public static let otherSessionError = ErrorCode(rawValue: 201)
    /// 202: token expired.
    public static let tokenExpired = ErrorCode(rawValue: 202)
    /// 203: bad authentication.
    public static let badAuthentication = ErrorCode(rawValue: 203)
    /// 204: illegal partition value.
    public static let illegalRealmPath = ErrorCode(rawValue: 204)
    /// 205: no such Realm.
    public static let noSuchRealm = ErrorCode(rawValue: 205)
    /// 206: permission denied.
    public static let permissionDenied = ErrorCode(rawValue: 206)
    /// 207: bad server file ident.
    public static let badServerFileIdent = ErrorCode(rawValue: 207)
    /// 208: bad client file ident.
    public static let badClientFileIdent = ErrorCode(rawValue: 208)
    /// 209: bad server version.
    public static let badServerVersion = ErrorCode(rawValue: 209)
    /// 210: bad client version.
    public static let badClientVersion = ErrorCode(rawValue: 210)
    /// 211: diverging histories.
    public static let divergingHistories = ErrorCode(rawValue: 211)
    /// 212: bad changeset.
    public static let badChangeset = ErrorCode(rawValue: 212)
    /// 213: disabled session.
    public static let disabledSession = ErrorCode(rawValue: 213)
    /// 214: partial sync disabled.
    public static let partialSyncDisabled = ErrorCode(rawValue: 214)
    /// 215: unsupported session feature.
    public static let unsupportedSessionFeature = ErrorCode(rawValue: 215)
    /// 216: bad origin file ident.
    public static let badOriginFileIdent = ErrorCode(rawValue: 216)
    /// 217: bad client file.
    public static let badClientFile = ErrorCode(rawValue: 217)
    /// 218: server file deleted.
    public static let serverFileDeleted = ErrorCode(rawValue: 218)
    /// 219: client file blacklisted.
    public static let clientFileBlacklisted = ErrorCode(rawValue: 219)
    /// 220: user blacklisted.
    public static let userBlacklisted = ErrorCode(rawValue: 220)
    /// 221: transact before upload.
    public static let transactBeforeUpload = ErrorCode(rawValue: 221)
    /// 222: client file expired.
    public static let clientFileExpired = ErrorCode(rawValue: 222)
    /// 223: client file of another user.
    public static let userMismatch = ErrorCode(rawValue: 223)
    /// 224: too many sessions.
    public static let tooManySessions = ErrorCode(rawValue: 224)
    /// 225: invalid schema change.
    public static let invalidSchemaChange = ErrorCode(rawValue: 225)
    /// 226: bad query.
    public static let badQuery = ErrorCode(rawValue: 226)
    /// 227: object already exists.
    public static let objectAlreadyExists = ErrorCode(rawValue: 227)
    /// 228: server permissions changed.
    public static let serverPermissionsChanged = ErrorCode(rawValue: 228)
    /// 229: initial sync not completed.
    public static let initialSyncNotCompleted = ErrorCode(rawValue: 229)
    /// 230: write not allowed.
    public static let writeNotAllowed = ErrorCode(rawValue: 230)
    /// 231: compensating write.
    public static let compensatingWrite = ErrorCode(rawValue: 231)
    /// 232: migrate to flexible sync.
    public static let migrateToFlexibleSync = ErrorCode(rawValue: 232)
    /// 233: bad progress.
    public static let badProgress = ErrorCode(rawValue: 233)
    /// 234: revert to partition-based sync.
    public static let revertToPartitionSync = ErrorCode(rawValue: 234)
    /// 235: bad schema version.
    public static let badSchemaVersion = ErrorCode(rawValue: 235)
    /// 236: schema version changed.
    public static let schemaVersionChanged = ErrorCode(rawValue: 236)

    /// The name and the recommended action; without an action it must not be sent.
    private static let table: [ErrorCode: (name: String, action: Action?)] = [
        .connectionClosed: ("connection closed", .transient),
        .otherError: ("other error", .transient),
        .unknownMessage: ("unknown message type", .protocolViolation),
        .badSyntax: ("bad syntax in message head", .protocolViolation),
        .limitsExceeded: ("limits exceeded", nil),
        .wrongProtocolVersion: ("unsupported protocol version", .protocolViolation),
        .badSessionIdent: ("bad session ident", .protocolViolation),
        .reuseOfSessionIdent: ("overlapping reuse of session ident", .protocolViolation),
        .boundInOtherSession: ("client file bound in other session of this connection", .protocolViolation),
        .badMessageOrder: ("bad message order", .protocolViolation),
        .badDecompression: ("decompression failed", .protocolViolation),
        .badChangesetHeader: ("bad changeset header", .protocolViolation),
        .badChangesetSize: ("bad changeset size", .protocolViolation),
        .switchToFlexibleSync: ("this server speaks flexible sync only", .applicationBug),
        .switchToPartitionSync: ("this server speaks partition-based sync only", .applicationBug),

        .sessionClosed: ("session closed", .transient),
        .otherSessionError: ("session error", .transient),
        .tokenExpired: ("token expired", nil),
        .badAuthentication: ("bad authentication", nil),
        .illegalRealmPath: ("illegal partition value", .applicationBug),
        .noSuchRealm: ("no such Realm", nil),
        .permissionDenied: ("permission denied", .applicationBug),
        .badServerFileIdent: ("bad server file ident", nil),
        .badClientFileIdent: ("bad client file ident", .clientReset),
        .badServerVersion: ("bad server version", .clientReset),
        .badClientVersion: ("bad client version", .clientReset),
        .divergingHistories: ("diverging histories", .clientReset),
        .badChangeset: ("bad changeset", .clientReset),
        .disabledSession: ("disabled session", nil),
        .partialSyncDisabled: ("partial sync disabled", nil),
        .unsupportedSessionFeature: ("unsupported session feature", nil),
        .badOriginFileIdent: ("bad origin file ident", .protocolViolation),
        .badClientFile: ("bad client file", .clientReset),
        .serverFileDeleted: ("server file deleted", nil),
        .clientFileBlacklisted: ("client file blacklisted", nil),
        .userBlacklisted: ("user blacklisted", nil),
        .transactBeforeUpload: ("transact before upload", nil),
        .clientFileExpired: ("client file expired", .clientReset),
        .userMismatch: ("client file of another user", .applicationBug),
        .tooManySessions: ("too many sessions", nil),
        .invalidSchemaChange: ("invalid schema change", .applicationBug),
        .badQuery: ("bad query", .applicationBug),
        .objectAlreadyExists: ("object already exists", .warning),
        .serverPermissionsChanged: ("server permissions changed", .clientReset),
        .initialSyncNotCompleted: ("initial sync not completed", .transient),
        .writeNotAllowed: ("write not allowed", .clientResetNoRecovery),
        .compensatingWrite: ("compensating write", .warning),
        .migrateToFlexibleSync: ("migrate to flexible sync", nil),
        .badProgress: ("bad progress", .clientReset),
        .revertToPartitionSync: ("revert to partition-based sync", nil),
        .badSchemaVersion: ("bad schema version", nil),
        .schemaVersionChanged: ("schema version changed", nil),
    ]
}

/// A message that its sender was not allowed to send. It ends the connection.
public struct ProtocolError: Error, Equatable, Sendable {
    /// A connection-level code.
    public let code: ErrorCode
    /// A description of the fault, for the log and for the message that the client shows.
    public let reason: String

    /// An error to be thrown for such a message.
    public init(_ code: ErrorCode, _ reason: String) {
        self.code = code
        self.reason = reason
    }
}
