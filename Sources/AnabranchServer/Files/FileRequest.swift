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

/// What a session asks of its synced file, on the way to the file's queue.
struct FileRequest: Sendable {
    let path: VirtualPath
    let session: SessionKey
    /// The user of the connection.
    let principal: Principal
    /// What the client's release can do with what it downloads.
    let capabilities: ClientCapabilities
    let request: SessionRequest
    /// The client's program.
    var uploader = Uploader.unknown
    /// Whether the user may not change the data of the partition.
    var mayOnlyRead = false
    /// Whether a DOWNLOAD may be long: the connection has no other one under way.
    var mayBeLong = true
    /// Room for a DOWNLOAD, if the request had to wait for it.
    var permit: MemoryPermit?

    /// Nil if the server does not know.
    var user: String? { principal.user }

    /// What the request occupies while it waits, in bytes.
    var cost: Int {
        switch request {
        // It has been done once.
        case _ where permit != nil: 0
        case .integrate(let upload): 256 + upload.changesetBytes + 64 * upload.changesetCount
        case .query(let subscriptions): 256 + subscriptions.query.count
        default: 256
        }
    }

    /// Whether it brings nothing that anybody waits for.
    var saysOnlyProgress: Bool {
        if case .integrate(let upload) = request { upload.changesetCount == 0 } else { false }
    }

    var charge: RequestCharge { RequestCharge(connection: session.connection, bytes: cost) }
}

/// What a request occupies until it is done: handled, and committed if it is an upload.
struct RequestCharge: Sendable {
    let connection: ConnectionID
    let bytes: Int
}

/// What a synced file tells a session, on the way back to the session's connection.
struct FileReply: Sendable {
    let session: SessionKey
    let event: SessionEvent
    /// Of a DOWNLOAD that was made before the session asked for it: the cursor that it follows.
    var follows: DownloadCursor?
}
