/// A place between two entries of the server's log, as a client knows it (`Spec/History.md`, section 1).
public struct DownloadCursor: Equatable, Hashable, Sendable {
    /// The version of the log entry before the place; 0 is the beginning of the log.
    public var serverVersion: ServerVersion
    /// The client version of this client's last changeset before the place; 0 if there is none.
    public var clientVersion: ClientVersion

    /// Creates the place directly after the two versions; 0 and 0 is the beginning.
    public init(serverVersion: ServerVersion = 0, clientVersion: ClientVersion = 0) {
        self.serverVersion = serverVersion
        self.clientVersion = clientVersion
    }

    /// True if such a place is possible: no change of the client can precede the beginning of the server's log.
    public var isConsistent: Bool { serverVersion != 0 || clientVersion == 0 }
}

/// A place between two entries of a client's log, as the server knows it (`Spec/History.md`, section 1).
public struct UploadCursor: Equatable, Hashable, Sendable {
    /// The version of the client's log entry before the place; 0 is the beginning.
    public var clientVersion: ClientVersion
    /// The last server version that the client had integrated before the place; 0 if none.
    public var serverVersion: ServerVersion

    /// Creates the place directly after the two versions; 0 and 0 is the beginning.
    public init(clientVersion: ClientVersion = 0, serverVersion: ServerVersion = 0) {
        self.clientVersion = clientVersion
        self.serverVersion = serverVersion
    }

    /// True if such a place is possible: at the beginning of the client's log nothing of the server can have been
    /// integrated.
    public var isConsistent: Bool { clientVersion != 0 || serverVersion == 0 }

    /// True if time runs in the same direction on both sides between the two cursors.
    public func isMutuallyConsistent(with other: UploadCursor) -> Bool {
        if clientVersion < other.clientVersion { return serverVersion <= other.serverVersion }
        if clientVersion > other.clientVersion { return serverVersion >= other.serverVersion }
        return serverVersion == other.serverVersion
    }
}
