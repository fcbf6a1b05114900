public import AnabranchCore

/// A message of a client (`Spec/Protocol.md`, section 4). One that was decoded is well formed and its numbers are in
/// range; whether it is in order is for `ServerConnection` to say.
public enum ClientMessage: Equatable, Sendable {
    /// A session begins.
    case bind(session: SessionID, BindRequest)
    /// The file that the client synchronises, and its progress.
    case ident(session: SessionID, IdentRequest)
    /// The client has another subscription set; in flexible sync only.
    case query(session: SessionID, SubscriptionSet)
    /// Changesets of the client, perhaps none, and the progress of its scan.
    case upload(session: SessionID, UploadMessage)
    /// Asks for a MARK in return once the client has everything. The request is a number from 1 to 2^63 − 1.
    case mark(session: SessionID, request: UInt64)
    /// The client's last message in the session.
    case unbind(session: SessionID)
    /// Milliseconds of the client's monotonic clock, and the duration of the exchange before.
    case ping(timestamp: Int64, roundTripMilliseconds: UInt64)
    /// JSON_ERROR: the client could not integrate a DOWNLOAD. The code may be any number, the text is JSON.
    case error(session: SessionID, code: Int, text: [UInt8])
    /// Only clients built for tests send it, and they may be left without an answer. The request is a number from 1 to
    /// 2^63 − 1.
    case testCommand(session: SessionID, request: UInt64, body: [UInt8])

    /// The first word of a message.
    public enum Kind: String, CaseIterable, Sendable {
        /// The messages, in the order of `Spec/Protocol.md`, section 4.
        case bind, ident, upload, mark, unbind, ping
        /// In flexible sync only.
        case query
        /// JSON_ERROR.
        case error = "json_error"
        /// TEST_COMMAND.
        case testCommand = "test_command"

        /// The kind of a whole message, by its first bytes; nil if there is no such kind. Nothing else is looked at.
        public init?(of message: some Collection<UInt8>) { self.init(firstWordOfCollection: message) }

        /// The same for bytes in memory: each message passes through here several times.
        package init?(of message: UnsafeRawBufferPointer) { self.init(firstWordOf: message) }
    }
}

/// The content of BIND (`Spec/Protocol.md`, section 4.1).
public struct BindRequest: Equatable, Sendable {
    /// Selects the server-side file: opaque bytes, possibly empty, never to be used as the name of a file. Empty in
    /// flexible sync, where an app has one.
    public var partition: [UInt8]
    /// The client's file is new and wants an ident.
    public var needsFileIdent: Bool
    /// The part of flexible sync; nil if the client is too old to send it, and in partition-based sync.
    public var flexible: FlexibleBind?

    /// A request of partition-based sync.
    public init(partition: [UInt8], needsFileIdent: Bool) {
        self.partition = partition
        self.needsFileIdent = needsFileIdent
    }

    /// A request of flexible sync.
    public init(flexible: FlexibleBind?, needsFileIdent: Bool) {
        self.init(partition: [], needsFileIdent: needsFileIdent)
        self.flexible = flexible
    }
}

/// The content of UPLOAD (`Spec/Protocol.md`, section 4.4). The changesets stay in the bytes in which they travel until
/// `upload` is read: however many there are, they take no other memory.
public struct UploadMessage: Equatable, Sendable {
    /// The progress of the client's scan of its own log.
    public let progress: UploadCursor
    /// The client refers to no history at or below the lower of this and `progress.serverVersion`.
    public let lockedVersion: ServerVersion
    let entries: BodyEntries<UploadedChangeset>

    /// The message with this content.
    public init(_ upload: Upload) {
        self.init(
            progress: upload.progress, lockedVersion: upload.lockedVersion, entries: BodyEntries(upload.changesets))
    }

    init(progress: UploadCursor, lockedVersion: ServerVersion, entries: BodyEntries<UploadedChangeset>) {
        self.progress = progress
        self.lockedVersion = lockedVersion
        self.entries = entries
    }

    /// The number of changesets.
    public var changesetCount: Int { entries.count }

    /// The sum of the sizes of the changesets, in bytes.
    public var changesetBytes: Int { entries.changesetBytes }

    /// The content of the message, each changeset in an array of its own: the message itself can go.
    public var upload: Upload {
        Upload(progress: progress, lockedVersion: lockedVersion, changesets: Array(entries))
    }
}
