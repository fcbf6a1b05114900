import AnabranchCore

/// The identity of a client's file within one server-side file: a small number, and a salt that proves that both
/// sides mean the same (`Spec/History.md`, section 3).
public struct FileIdent: Hashable, Sendable {
    /// 1 … 2^63 − 1; 1 is the server's own.
    public var ident: UInt64
    /// 1 … 2^63 − 1.
    public var salt: UInt64

    public init(ident: UInt64, salt: UInt64) {
        self.ident = ident
        self.salt = salt
    }
}

/// A server version with its salt; both are 0 before the first entry of the log.
public struct SaltedVersion: Hashable, Sendable {
    public var version: UInt64
    public var salt: UInt64

    public init(version: UInt64 = 0, salt: UInt64 = 0) {
        self.version = version
        self.salt = salt
    }
}

// MARK: - From the client

/// A message of a client (`Spec/Protocol.md`, section 4). It is well formed and its numbers are in range; whether it
/// is in order is for `ServerConnection` to say.
public enum ClientMessage: Equatable, Sendable {
    case bind(BindMessage)
    case ident(IdentMessage)
    case upload(UploadMessage)
    case mark(session: UInt64, request: UInt64)
    case unbind(session: UInt64)
    /// Milliseconds of the client's monotonic clock, and the duration of the exchange before.
    case ping(timestamp: Int64, roundTripMilliseconds: UInt64)
    /// JSON_ERROR: the client could not integrate a DOWNLOAD. The code may be any number, the text is JSON.
    case error(session: UInt64, code: Int, text: ArraySlice<UInt8>)
    /// Only clients built for tests send it, and they may be left without an answer.
    case testCommand(session: UInt64)
}

/// BIND: a session begins.
public struct BindMessage: Equatable, Sendable {
    /// Chosen by the client; names the session on this connection.
    public var session: UInt64
    /// Selects the server-side file: opaque bytes, possibly empty, never to be used as the name of a file.
    public var partition: [UInt8]
    /// The client's file is new and wants an ident.
    public var needsFileIdent: Bool
}

/// IDENT: which file the client synchronises, and how far it has come.
public struct IdentMessage: Equatable, Sendable {
    public var session: UInt64
    public var file: FileIdent
    public var download: DownloadCursor
    /// The last version that a DOWNLOAD told this file.
    public var latest: SaltedVersion
}

/// UPLOAD: changesets of the client, and progress of its scan even if there are none.
public struct UploadMessage: Equatable, Sendable {
    public var session: UInt64
    public var progress: UploadCursor
    /// The client refers to no history at or below the lower of this and `progress.serverVersion`.
    public var lockedVersion: UInt64
    public var entries: UploadEntries
}

/// One changeset of an UPLOAD.
public struct UploadEntry: Equatable, Sendable {
    public var cursor: UploadCursor
    /// As sent: an ident of 0 means the client's own file, any other is to be refused with 216.
    public var tag: OriginTag
    /// A window on the message that it came in; a copy as `Array` lets go of the message.
    public var changeset: ArraySlice<UInt8>
}

// MARK: - From the server

/// A message of the server (`Spec/Protocol.md`, section 5).
public enum ServerMessage: Sendable {
    case ident(session: UInt64, FileIdent)
    case download(session: UInt64, DownloadHeader, DownloadBody)
    case mark(session: UInt64, request: UInt64)
    case unbound(session: UInt64)
    case pong(timestamp: Int64)
    /// Session 0 is the connection.
    case log(session: UInt64, LogMessage)
    /// JSON_ERROR; session 0 is the connection.
    case error(session: UInt64, ErrorMessage)
}

/// The progress that a DOWNLOAD reports.
public struct DownloadHeader: Equatable, Sendable {
    /// Where the client stands after it.
    public var cursor: DownloadCursor
    /// The newest version there is.
    public var latest: SaltedVersion
    /// How far the client's own changes are integrated.
    public var upload: UploadCursor
    /// An estimate of the bytes still to come after this message.
    public var downloadableBytes: UInt64

    public init(
        cursor: DownloadCursor, latest: SaltedVersion, upload: UploadCursor, downloadableBytes: UInt64
    ) {
        self.cursor = cursor
        self.latest = latest
        self.upload = upload
        self.downloadableBytes = downloadableBytes
    }
}

/// One changeset of a DOWNLOAD. The array of its bytes is shared by all readers, not copied for each.
public struct DownloadEntry: Equatable, Sendable {
    public var serverVersion: UInt64
    /// The reader's own last client version before this entry: the only field that differs between readers.
    public var clientVersion: UInt64
    /// The server's own changesets have the ident 1.
    public var tag: OriginTag
    public var changeset: [UInt8]
    /// The size in bytes before compaction, for the client's display of progress.
    public var originalBytes: Int

    public init(
        serverVersion: UInt64, clientVersion: UInt64, tag: OriginTag, changeset: [UInt8], originalBytes: Int? = nil
    ) {
        self.serverVersion = serverVersion
        self.clientVersion = clientVersion
        self.tag = tag
        self.changeset = changeset
        self.originalBytes = originalBytes ?? changeset.count
    }
}
