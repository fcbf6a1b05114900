import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// A number for one connection, never used again while the process runs.
struct ConnectionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    let number: UInt64

    static func < (left: ConnectionID, right: ConnectionID) -> Bool { left.number < right.number }

    var description: String { "\(number)" }
}

/// One session of one connection, as a synced file knows it.
struct SessionKey: Hashable, Sendable {
    let connection: ConnectionID
    let session: SessionHandle
}

/// What a session asks of its synced file. The calls of one session arrive in the order in which they were made.
struct FileRequest: Sendable {
    enum Request: Sendable {
        /// BIND; with `needsFileIdent` an ident is allocated for the user.
        case open(user: String?, needsFileIdent: Bool)
        /// IDENT: the session wants to run.
        case identify(IdentRequest)
        case integrate(UploadMessage)
        /// The session wants to send the DOWNLOAD that follows the cursor.
        case scan(from: DownloadCursor)
        /// The session is over, or its connection is.
        case close
    }

    let path: VirtualPath
    let session: SessionKey
    let request: Request

    /// What the call occupies while it waits, in bytes: the measure by which a connection's reading is held back.
    var cost: Int {
        switch request {
        case .integrate(let upload): 256 + upload.changesetBytes + 64 * upload.changesetCount
        default: 256
        }
    }
}

/// What a synced file tells a session. Everything said is durable (`Spec/History.md`, section 10).
struct FileReply: Sendable {
    enum Event: Sendable {
        case allocated(SaltedFileID)
        case accepted(DownloadCursor, exposedVersion: ServerVersion)
        /// A commit made new versions.
        case exposed(ServerVersion)
        case download(DownloadProgress, EncodedBody)
        /// The file has let go of the session.
        case failed(ErrorMessage)
        /// The whole connection has done something that it may not do.
        case connectionFailed(ErrorMessage)
        /// Another connection has bound the client file, so this one is presumed dead: it ends without a message.
        case superseded
    }

    let session: SessionKey
    let event: Event
}
