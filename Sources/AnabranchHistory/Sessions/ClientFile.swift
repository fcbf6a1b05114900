public import AnabranchCore

/// What the server keeps of one client file (`Spec/History.md`, section 2.3). Rows 0 and 1 are reserved; their salt is
/// 0, so that nobody can bind them.
public struct ClientFile: Equatable, Sendable {
    /// 2, 3, 4 … in the order of allocation; never used again.
    public var ident: ClientFileID
    /// 0 for the reserved rows.
    public var salt: Salt
    /// The newest client version that was integrated, and the last server version that the client had integrated at
    /// that point. The latter is the base of the reciprocal history.
    public var uploadCursor: UploadCursor
    /// The highest value that the client reported.
    public var lockedVersion: ServerVersion
    /// When something of the client was last integrated, in seconds since 1970; 0 means expired.
    public var lastSeen: UInt64
    /// The user who asked for the ident; nil if the server did not know.
    public var user: String?

    /// Puts the parts together. A new file has uploaded nothing.
    public init(
        ident: ClientFileID, salt: Salt, uploadCursor: UploadCursor = UploadCursor(), lockedVersion: ServerVersion = 0,
        lastSeen: UInt64, user: String? = nil
    ) {
        self.ident = ident
        self.salt = salt
        self.uploadCursor = uploadCursor
        self.lockedVersion = lockedVersion
        self.lastSeen = lastSeen
        self.user = user
    }

    /// An expired file is refused from then on, and has no reciprocal history.
    public var isExpired: Bool { lastSeen == 0 }

    /// Rows 0 (nobody) and 1 (the server's own file), with which every table of client files begins.
    public static let reserved = [
        ClientFile(ident: 0, salt: 0, lastSeen: 1), ClientFile(ident: 1, salt: 0, lastSeen: 1),
    ]
}
