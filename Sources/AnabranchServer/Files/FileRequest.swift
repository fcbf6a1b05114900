import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// The number of a connection, never used again while the process runs.
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

/// A request of a session to its synced file, on the way to the file's queue.
struct FileRequest: Sendable {
    let path: VirtualPath
    let session: SessionKey
    /// The user of the connection.
    let principal: Principal
    /// The capabilities of the client's release in handling downloads.
    let capabilities: ClientCapabilities
    let request: SessionRequest
    /// The client's program.
    var uploader = Uploader.unknown
    /// True if the user may not change the data of the partition.
    var mayOnlyRead = false
    /// True if a DOWNLOAD may be long: the connection has no other one under way.
    var mayBeLong = true
    /// The room for a DOWNLOAD, if the request had to wait for it.
    var permit: MemoryPermit?

    /// The user's ident; nil if the server does not know it.
    var user: String? { principal.user }

    /// The memory that the request occupies while it waits, in bytes.
    var cost: Int {
        switch request {
        // It was charged before, when it came without the permit.
        case _ where permit != nil: 0
        case .integrate(let upload): 256 + upload.changesetBytes + 64 * upload.changesetCount
        case .query(let subscriptions): 256 + subscriptions.query.count
        case .identify(let claim, _): 256 + (claim.subscriptions?.query.count ?? 0)
        default: 256
        }
    }

    /// True if the request is an IDENT with a set of queries that takes some time to read.
    var hasLongSet: Bool {
        if case .identify = request { cost > Self.longSetBytesMin } else { false }
    }

    private static let longSetBytesMin = 4 << 10

    /// True if the request brings only progress, which nobody waits for.
    var saysOnlyProgress: Bool {
        if case .integrate(let upload) = request { upload.changesetCount == 0 } else { false }
    }

    var charge: RequestCharge { RequestCharge(connection: session.connection, bytes: cost) }
}

/// The memory that a request occupies until it is done: handled, and committed if it is an upload.
struct RequestCharge: Sendable {
    let connection: ConnectionID
    let bytes: Int
}

/// A reply of a synced file to a session, on the way back to the session's connection.
struct FileReply: Sendable {
    let session: SessionKey
    let event: SessionEvent
    /// The cursor that a DOWNLOAD follows, if it was made before the session requested it.
    var follows: DownloadCursor?
}
