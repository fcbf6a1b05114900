import AnabranchProtocol

/// The reason why a session gets no file although nothing is wrong with the store. The raw value is for metrics.
enum SessionRefusal: String, CaseIterable {
    /// The user has made too many synced files within a minute.
    case files
    /// The user has had too many idents for client files within a minute.
    case clientFiles = "client_files"
    /// There is no such synced file, and the partition value is too long for a new one.
    case partition
    /// There is no such synced file, and no room for a new one.
    case space
    /// In flexible sync: the queries of the user's clients have taken too much time within a minute.
    case queries

    /// The message to the client.
    var message: ErrorMessage {
        switch self {
        case .files: ErrorMessage(.otherSessionError, "too many new files; wait")
        case .clientFiles: ErrorMessage(.otherSessionError, "too many new client files; wait")
        case .partition: ErrorMessage(.illegalRealmPath, "too long for a new file")
        case .queries: ErrorMessage(.otherSessionError, "too much time for queries; wait")
        case .space: ErrorMessage(.otherSessionError, "no room for a new file; wait")
        }
    }
}
