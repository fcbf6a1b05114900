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
    /// 100: the server closes the connection, because of overload or a shutdown; the client reconnects.
    public static let connectionClosed = ErrorCode(rawValue: 100)
    /// 101: any other failure of the server; the client reconnects.
    public static let otherError = ErrorCode(rawValue: 101)
    /// 102: a message of an unknown type.
    public static let unknownMessage = ErrorCode(rawValue: 102)
    /// 103: a message head that cannot be read, or whose sizes contradict its body.
    public static let badSyntax = ErrorCode(rawValue: 103)
    /// 104: limits exceeded. Clients abort their process on it, so it is never sent: close code 1009 takes its place.
    public static let limitsExceeded = ErrorCode(rawValue: 104)
    /// 105: no common version of the protocol.
    public static let wrongProtocolVersion = ErrorCode(rawValue: 105)
    /// 106: a message for a session that does not exist.
    public static let badSessionIdent = ErrorCode(rawValue: 106)
    /// 107: a BIND with the ident of a session that still exists.
    public static let reuseOfSessionIdent = ErrorCode(rawValue: 107)
    /// 108: an IDENT with a client file that another session of this connection uses.
    public static let boundInOtherSession = ErrorCode(rawValue: 108)
    /// 109: a message that the state of its session does not allow.
    public static let badMessageOrder = ErrorCode(rawValue: 109)
    /// 110: a body that does not inflate to its announced size, or is larger than allowed.
    public static let badDecompression = ErrorCode(rawValue: 110)
    /// 111: an UPLOAD with a changeset whose numbers cannot be read.
    public static let badChangesetHeader = ErrorCode(rawValue: 111)
    /// 112: an UPLOAD with a changeset that is empty, or longer than the rest of the body.
    public static let badChangesetSize = ErrorCode(rawValue: 112)
    /// 113: this server supports flexible sync only.
    public static let switchToFlexibleSync = ErrorCode(rawValue: 113)
    /// 114: this server supports partition-based sync only.
    public static let switchToPartitionSync = ErrorCode(rawValue: 114)

    /// 200: the server closes the session; the client begins it again after a second.
    public static let sessionClosed = ErrorCode(rawValue: 200)
    /// 201: any other failure of the server that concerns one session, or a store that takes no changes now.
    public static let otherSessionError = ErrorCode(rawValue: 201)
    /// 202: the access token has expired. Never sent, since clients abort on it: close code 4001 takes its place.
    public static let tokenExpired = ErrorCode(rawValue: 202)
    /// 203: no valid access token. Never sent, since clients abort on it: close codes 4001 and 4002 take its place.
    public static let badAuthentication = ErrorCode(rawValue: 203)
    /// 204: a BIND with a partition value that does not fit the app.
    public static let illegalRealmPath = ErrorCode(rawValue: 204)
    /// 205: the file does not exist. Never sent, since clients abort on it: 204 takes its place.
    public static let noSuchRealm = ErrorCode(rawValue: 205)
    /// 206: the user may not open the partition.
    public static let permissionDenied = ErrorCode(rawValue: 206)
    /// 207: an obsolete code, never sent.
    public static let badServerFileIdent = ErrorCode(rawValue: 207)
    /// 208: an IDENT with a client file that the server does not know; the client resets.
    public static let badClientFileIdent = ErrorCode(rawValue: 208)
    /// 209: an IDENT or UPLOAD that names a server version that the log does not have; the client resets.
    public static let badServerVersion = ErrorCode(rawValue: 209)
    /// 210: an IDENT or UPLOAD that names a client version that cannot be; the client resets.
    public static let badClientVersion = ErrorCode(rawValue: 210)
    /// 211: an IDENT with a version whose salt is another one here; the client resets.
    public static let divergingHistories = ErrorCode(rawValue: 211)
    /// 212: a changeset that cannot be read, merged or applied; the client resets.
    public static let badChangeset = ErrorCode(rawValue: 212)
    /// 213: a code that current clients do not know, never sent.
    public static let disabledSession = ErrorCode(rawValue: 213)
    /// 214: an obsolete code, never sent.
    public static let partialSyncDisabled = ErrorCode(rawValue: 214)
    /// 215: an obsolete code, never sent.
    public static let unsupportedSessionFeature = ErrorCode(rawValue: 215)
    /// 216: an UPLOAD with changes that claim to be of another client file.
    public static let badOriginFileIdent = ErrorCode(rawValue: 216)
    /// 217: the client file cannot be used any more; the client resets.
    public static let badClientFile = ErrorCode(rawValue: 217)
    /// 218: the file was deleted. Never sent, since clients abort on it: 217 takes its place.
    public static let serverFileDeleted = ErrorCode(rawValue: 218)
    /// 219: the client file is banned. Never sent, since clients abort on it: 206 takes its place.
    public static let clientFileBlacklisted = ErrorCode(rawValue: 219)
    /// 220: the user is banned. Never sent, since clients abort on it: close code 4002 takes its place.
    public static let userBlacklisted = ErrorCode(rawValue: 220)
    /// 221: an obsolete code, never sent.
    public static let transactBeforeUpload = ErrorCode(rawValue: 221)
    /// 222: the client was away so long that the log has dropped what it needs; the client resets.
    public static let clientFileExpired = ErrorCode(rawValue: 222)
    /// 223: an IDENT with a client file of another user.
    public static let userMismatch = ErrorCode(rawValue: 223)
    /// 224: too many sessions. Never sent, since clients abort on it: 201 takes its place.
    public static let tooManySessions = ErrorCode(rawValue: 224)
    /// 225: an UPLOAD that removes classes or columns, or changes the schema in another way that is not allowed.
    public static let invalidSchemaChange = ErrorCode(rawValue: 225)
    /// 226: a subscription whose query cannot be served.
    public static let badQuery = ErrorCode(rawValue: 226)
    /// 227: an UPLOAD that creates an object which its client must not create again.
    public static let objectAlreadyExists = ErrorCode(rawValue: 227)
    /// 228: the permissions of the user have changed; the client resets.
    public static let serverPermissionsChanged = ErrorCode(rawValue: 228)
    /// 229: the server is not ready for the app yet; the client tries again.
    public static let initialSyncNotCompleted = ErrorCode(rawValue: 229)
    /// 230: an UPLOAD by a user who may only read the partition; the client resets without recovery.
    public static let writeNotAllowed = ErrorCode(rawValue: 230)
    /// 231: the server has undone writes that the user may not make (section 7.4); the session goes on.
    public static let compensatingWrite = ErrorCode(rawValue: 231)
    /// 232: the app has moved to flexible sync.
    public static let migrateToFlexibleSync = ErrorCode(rawValue: 232)
    /// 233: a DOWNLOAD whose progress goes back; clients send it.
    public static let badProgress = ErrorCode(rawValue: 233)
    /// 234: the app has moved back to partition-based sync.
    public static let revertToPartitionSync = ErrorCode(rawValue: 234)
    /// 235: a client with a schema version that the server does not have, in flexible sync.
    public static let badSchemaVersion = ErrorCode(rawValue: 235)
    /// 236: the client has to move to another version of its schema, in flexible sync.
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
