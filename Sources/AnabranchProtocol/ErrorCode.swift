/// The errors of the wire protocol (`Spec/Protocol.md`, section 7.1): 100 … 199 end a connection, 200 … 299 a session.
public enum ErrorCode: Int, CaseIterable, Sendable {
    case connectionClosed = 100
    case otherError = 101
    case unknownMessage = 102
    case badSyntax = 103
    case limitsExceeded = 104
    case wrongProtocolVersion = 105
    case badSessionIdent = 106
    case reuseOfSessionIdent = 107
    case boundInOtherSession = 108
    case badMessageOrder = 109
    case badDecompression = 110
    case badChangesetHeader = 111
    case badChangesetSize = 112
    case switchToFlexibleSync = 113
    case switchToPartitionSync = 114

    case sessionClosed = 200
    case otherSessionError = 201
    case tokenExpired = 202
    case badAuthentication = 203
    case illegalRealmPath = 204
    case noSuchRealm = 205
    case permissionDenied = 206
    case badServerFileIdent = 207
    case badClientFileIdent = 208
    case badServerVersion = 209
    case badClientVersion = 210
    case divergingHistories = 211
    case badChangeset = 212
    case disabledSession = 213
    case partialSyncDisabled = 214
    case unsupportedSessionFeature = 215
    case badOriginFileIdent = 216
    case badClientFile = 217
    case serverFileDeleted = 218
    case clientFileBlacklisted = 219
    case userBlacklisted = 220
    case transactBeforeUpload = 221
    case clientFileExpired = 222
    case userMismatch = 223
    case tooManySessions = 224
    case invalidSchemaChange = 225
    case badQuery = 226
    case objectAlreadyExists = 227
    case serverPermissionsChanged = 228
    case initialSyncNotCompleted = 229
    case writeNotAllowed = 230
    case compensatingWrite = 231
    case migrateToFlexibleSync = 232
    case badProgress = 233
    case revertToPartitionSync = 234
    case badSchemaVersion = 235
    case schemaVersionChanged = 236

    /// What a client does about an error (section 5.6).
    public enum Action: String, Sendable {
        case transient = "Transient"
        case warning = "Warning"
        case applicationBug = "ApplicationBug"
        case protocolViolation = "ProtocolViolation"
        case clientReset = "ClientReset"
        case clientResetNoRecovery = "ClientResetNoRecovery"
        case deleteRealm = "DeleteRealm"

        /// Clients before 12.6 look at a key of its own, which has to agree with the action.
        var requestsClientReset: Bool { self == .clientReset || self == .clientResetNoRecovery }
    }

    public var isConnectionLevel: Bool { rawValue < 200 }

    /// Whether the client may try again without the help of a person. Also true of violations that end a connection:
    /// their action stops the sessions, while `false` would keep the whole process from connecting (section 7.2),
    /// which is right only for a client that no retry can make welcome.
    public var triesAgain: Bool {
        switch self {
        case .wrongProtocolVersion, .switchToFlexibleSync, .switchToPartitionSync: false
        default: isConnectionLevel || action == .transient || action == .warning
        }
    }

    /// False for codes that abort the client's process, that nobody knows any more, or that belong to flexible sync.
    public var isSendable: Bool { row.action != nil }

    /// A few words for people.
    public var name: String { row.name }

    /// The recommended action.
    public var action: Action { row.action ?? .applicationBug }

    /// The table. No action: must not be sent.
    private var row: (name: String, action: Action?) {
        switch self {
        case .connectionClosed: ("connection closed", .transient)
        case .otherError: ("other error", .transient)
        case .unknownMessage: ("unknown message type", .protocolViolation)
        case .badSyntax: ("bad syntax in message head", .protocolViolation)
        case .limitsExceeded: ("limits exceeded", nil)
        case .wrongProtocolVersion: ("unsupported protocol version", .protocolViolation)
        case .badSessionIdent: ("bad session ident", .protocolViolation)
        case .reuseOfSessionIdent: ("overlapping reuse of session ident", .protocolViolation)
        case .boundInOtherSession: ("client file bound in other session of this connection", .protocolViolation)
        case .badMessageOrder: ("bad message order", .protocolViolation)
        case .badDecompression: ("decompression failed", .protocolViolation)
        case .badChangesetHeader: ("bad changeset header", .protocolViolation)
        case .badChangesetSize: ("bad changeset size", .protocolViolation)
        case .switchToFlexibleSync: ("this server speaks flexible sync only", .applicationBug)
        case .switchToPartitionSync: ("this server speaks partition-based sync only", .applicationBug)

        case .sessionClosed: ("session closed", .transient)
        case .otherSessionError: ("session error", .transient)
        case .tokenExpired: ("token expired", nil)
        case .badAuthentication: ("bad authentication", nil)
        case .illegalRealmPath: ("illegal partition value", .applicationBug)
        case .noSuchRealm: ("no such Realm", nil)
        case .permissionDenied: ("permission denied", .applicationBug)
        case .badServerFileIdent: ("bad server file ident", nil)
        case .badClientFileIdent: ("bad client file ident", .clientReset)
        case .badServerVersion: ("bad server version", .clientReset)
        case .badClientVersion: ("bad client version", .clientReset)
        case .divergingHistories: ("diverging histories", .clientReset)
        case .badChangeset: ("bad changeset", .clientReset)
        case .disabledSession: ("disabled session", nil)
        case .partialSyncDisabled: ("partial sync disabled", nil)
        case .unsupportedSessionFeature: ("unsupported session feature", nil)
        case .badOriginFileIdent: ("bad origin file ident", .protocolViolation)
        case .badClientFile: ("bad client file", .clientReset)
        case .serverFileDeleted: ("server file deleted", nil)
        case .clientFileBlacklisted: ("client file blacklisted", nil)
        case .userBlacklisted: ("user blacklisted", nil)
        case .transactBeforeUpload: ("transact before upload", nil)
        case .clientFileExpired: ("client file expired", .clientReset)
        case .userMismatch: ("client file of another user", .applicationBug)
        case .tooManySessions: ("too many sessions", nil)
        case .invalidSchemaChange: ("invalid schema change", .applicationBug)
        case .badQuery: ("bad query", .applicationBug)
        case .objectAlreadyExists: ("object already exists", .warning)
        case .serverPermissionsChanged: ("server permissions changed", .clientReset)
        case .initialSyncNotCompleted: ("initial sync not completed", .transient)
        case .writeNotAllowed: ("write not allowed", .clientReset)
        case .compensatingWrite: ("compensating write", .warning)
        case .migrateToFlexibleSync: ("migrate to flexible sync", nil)
        case .badProgress: ("bad progress", .clientReset)
        case .revertToPartitionSync: ("revert to partition-based sync", nil)
        case .badSchemaVersion: ("bad schema version", nil)
        case .schemaVersionChanged: ("schema version changed", nil)
        }
    }
}

/// A message of the client that it was not allowed to send. It ends the connection.
public struct ProtocolViolation: Error, Equatable, Sendable {
    /// A connection-level code.
    public let code: ErrorCode
    /// What is wrong, for the log and for the message that the client shows.
    public let reason: String

    public init(_ code: ErrorCode, _ reason: String) {
        self.code = code
        self.reason = reason
    }
}
