public import AnabranchCore

/// A message of the server (`Spec/Protocol.md`, section 5). One that was decoded is well formed and its numbers are in
/// range; whether it is in order is for the client's side of the connection to say.
public enum ServerMessage: Equatable, Sendable {
    /// The answer to a BIND that needs an ident.
    case ident(session: SessionID, SaltedFileID)
    /// Changesets of others, perhaps none, and the progress.
    case download(session: SessionID, DownloadMessage)
    /// The answer to the client's MARK.
    case mark(session: SessionID, request: UInt64)
    /// The answer to UNBIND.
    case unbound(session: SessionID)
    /// The answer to PING: its timestamp.
    case pong(timestamp: Int64)
    /// A line for the client's log, from protocol version 10 on; session 0 is the connection.
    case log(session: SessionID, LogMessage)
    /// JSON_ERROR, from protocol version 4 on; session 0 is the connection.
    case error(session: SessionID, ErrorMessage)
    /// QUERY_ERROR, in flexible sync only.
    case queryError(session: SessionID, QueryRefusal)
    /// The answer to a TEST_COMMAND of the client: any text; `{}` means that it was done.
    case testCommand(session: SessionID, request: UInt64, body: [UInt8])

    /// The first word of a message.
    public enum Kind: String, CaseIterable, Sendable {
        /// The messages, in the order of `Spec/Protocol.md`, section 5.
        case ident, download, mark, unbound, pong
        /// LOG_MESSAGE.
        case log = "log_message"
        /// JSON_ERROR.
        case error = "json_error"
        /// QUERY_ERROR, in flexible sync only.
        case queryError = "query_error"
        /// TEST_COMMAND.
        case testCommand = "test_command"

        /// The kind of a whole message, by its first bytes; nil if there is no such kind. Nothing else is looked at.
        public init?(of message: some Collection<UInt8>) { self.init(firstWordOfCollection: message) }
    }
}

/// The content of DOWNLOAD (`Spec/Protocol.md`, section 5.2). The changesets stay in the bytes in which they travel
/// until `download` is read.
public struct DownloadMessage: Equatable, Sendable {
    /// The reader's place after the message.
    public let progress: DownloadProgress
    /// The fields of flexible sync, which take the place of `downloadableBytes`; nil in partition-based sync.
    public let batch: QueryBatch?
    let entries: BodyEntries<DownloadedChangeset>

    /// The message with this content.
    public init(_ download: Download, batch: QueryBatch? = nil) {
        self.init(progress: download.progress, batch: batch, entries: BodyEntries(download.changesets))
    }

    init(progress: DownloadProgress, batch: QueryBatch?, entries: BodyEntries<DownloadedChangeset>) {
        self.progress = progress
        self.batch = batch
        self.entries = entries
    }

    /// The number of changesets.
    public var changesetCount: Int { entries.count }

    /// The sum of the sizes of the changesets, in bytes.
    public var changesetBytes: Int { entries.changesetBytes }

    /// The content of the message, each changeset in an array of its own: the message itself can go.
    public var download: Download { Download(progress: progress, changesets: Array(entries)) }
}
