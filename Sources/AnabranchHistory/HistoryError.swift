/// The reason why the history refused something (`Spec/History.md`, sections 4 to 6). Two errors are equal if their
/// codes are.
public struct HistoryError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of failure: a refusal of what a client sent, or a failure of the server's own.
    public enum Code: Equatable, Sendable {
        /// The backlog of a synced file is full: the client tries again later.
        case backlogFull
        /// There is no such client file.
        case badClientFileIdent
        /// A server version is one that the client cannot refer to.
        case badServerVersion
        /// A client version is one that the client cannot refer to.
        case badClientVersion
        /// The client's history is not this one: a salt, or what the client claims to have uploaded, differs.
        case divergingHistories
        /// A changeset cannot be decoded, merged or applied.
        case badChangeset
        /// The object that a changeset makes together with changes of others, or the memory that the changeset needs,
        /// is beyond a limit of this server: the client keeps its changes.
        case tooLarge
        /// A changeset says that it comes from another client file than the one that uploads it.
        case badOriginFileIdent
        /// The upload removes classes or columns, or changes the schema in another way that is not allowed: the client
        /// keeps its changes.
        case destructiveSchemaChange
        /// The log holds what the client's release cannot read: the client keeps everything, and its app has to be
        /// updated.
        case clientTooOld
        /// The client file was given up, since its client was away for too long: the client has to reset.
        case clientFileExpired
        /// The client file belongs to another user.
        case userMismatch
        /// The client may not make the uploaded changes, and they cannot be undone.
        case writeNotAllowed
        /// An earlier connection may have left parts of a bootstrap with the client: it drops them when it begins its
        /// session again, on the same connection.
        case interruptedBootstrap
        /// The store could not do its work now: disk full, input/output error, connection lost. Nothing was changed.
        case storeFailed
        /// The disk, the store or the file has as much as it may hold: nothing is added to it.
        case noRoom
        /// The upload has crashed the process too often: the client has to send it again later.
        case uploadPutOff
        /// Somebody else has taken over the file, or its log does not end where the commit expected it to.
        case leaseLost
        /// In a shared store: another node has changed what the commit depends on. Nothing was stored; after taking in
        /// the changes (`SyncedFile.follow`) the commit can be tried again.
        case conflict
        /// The client file has a newer session, at another node of a shared store. Its work is dropped: the client has
        /// sent it to the other node again, or will.
        case superseded
        /// The stored data contradicts itself.
        case storeDamaged
        /// The data directory cannot be used: it belongs to a running process, or has another format.
        case storeUnusable
    }

    /// The kind of failure.
    public var code: Code
    /// An explanation for a log; no secrets, no user data.
    public var reason: String
    /// The file whose commit does not fit, with `conflict`.
    public var file: SyncedFileID?
    /// The write that was refused, with `writeNotAllowed`.
    package var refusal: CompensatingWrite?

    /// Creates an error with an explanation for a log.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// True if the codes are the same; the reasons may differ.
    public static func == (left: HistoryError, right: HistoryError) -> Bool { left.code == right.code }

    /// True for a failure of the server's own. A client that hits one must only ever be asked to try again: anything
    /// else would make it discard its data.
    public var isStoreFailure: Bool {
        switch code {
        case .storeFailed, .uploadPutOff, .leaseLost, .storeDamaged, .storeUnusable: true
        case .backlogFull, .badClientFileIdent, .badServerVersion, .badClientVersion, .divergingHistories,
            .badChangeset, .tooLarge, .badOriginFileIdent, .destructiveSchemaChange, .clientTooOld,
            .clientFileExpired, .userMismatch, .writeNotAllowed, .interruptedBootstrap, .conflict, .superseded, .noRoom:
            false
        }
    }

    /// True if the same request can succeed later without the client changing anything.
    public var isTransient: Bool {
        switch code {
        case .backlogFull, .interruptedBootstrap, .conflict, .superseded, .noRoom: true
        default: isStoreFailure
        }
    }

    /// The code and the reason, for a log.
    public var description: String { "\(code): \(reason)" }
}

extension HistoryError {
    /// The error of a commit to a shared store that does not fit.
    /// - Parameter what: the part of the file that somebody else has written.
    public static func conflict(of file: SyncedFileID, _ what: String) -> HistoryError {
        var error = HistoryError(.conflict, "somebody else has written \(what)")
        error.file = file
        return error
    }
}
