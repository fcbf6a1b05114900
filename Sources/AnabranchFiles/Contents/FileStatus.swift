public import Foundation

/// How a file, at one version, stands: whether it is on this device, and what is being transferred.
public struct FileStatus: Equatable, Sendable {
    /// The transfer of a content.
    public enum State: Sendable {
        /// None.
        case idle
        /// It comes from the server.
        case downloading
        /// It goes to the server.
        case uploading
    }

    /// The transfer that is under way.
    public internal(set) var state = State.idle
    /// True if the content is on this device, and can be read without a network.
    public internal(set) var isCached = false
    /// True if the server has not acknowledged the content, or the last change of name or place.
    public internal(set) var isPending = false
    /// The progress of the transfer; of none, a fraction of 1 if the content is here and 0 if not.
    public internal(set) var progress = FileProgress()
    /// The issue that keeps the content from being transferred; nil if there is none, or it need not be.
    public internal(set) var issue: FileIssue?
}

/// The progress of the transfer of a content. Within one transfer it never decreases, and it ends with a fraction of 1.
public struct FileProgress: Equatable, Sendable {
    /// The bytes that are there. They grow by whole chunks, of 4 MiB or less.
    public internal(set) var transferred: Int64 = 0
    /// The size of the content, in bytes; -1 of one that has not arrived at the server, since nobody knows it.
    public internal(set) var total: Int64 = 0

    /// The part of it that is done, from 0 to 1; 1 if there is nothing to do.
    public var fraction: Double { total > 0 ? Double(transferred) / Double(total) : total == 0 ? 1 : 0 }
}

/// An issue that keeps the content of a file from being transferred.
public struct FileIssue: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of an issue, as far as it matters to a user interface.
    public enum Kind: Sendable {
        /// The server cannot be reached.
        case offline
        /// The user has to log in again.
        case unauthorized
        /// The user may not do this.
        case forbidden
        /// The disk of this device is full.
        case storageFull
        /// The disk of this device cannot be read or written.
        case storageFailed
        /// The server takes no more of this user's bytes, or its own disk is full.
        case quotaExceeded
        /// The server does not have a part of the content, or has other bytes than it should.
        case damaged
        /// The server is not configured to keep files of the app.
        case noFileSpace
        /// Something is wrong with the server.
        case serverError
        /// The device that has made the file has not uploaded its content yet.
        case awaited
    }

    /// The kind of the issue.
    public let kind: Kind
    /// The file that it is about, as its path was when it occurred.
    public internal(set) var path: SpacePath?
    /// The reason in words.
    public let reason: String
    /// True if it is tried again by itself.
    public internal(set) var isRetrying: Bool
    /// When it is tried again; nil if that is not planned.
    public internal(set) var nextAttempt: Date?

    init(_ kind: Kind, _ reason: String, isRetrying: Bool = true) {
        self.kind = kind
        self.reason = reason
        self.isRetrying = isRetrying
    }

    static var awaited: FileIssue { FileIssue(.awaited, "the content has not arrived at the server yet") }

    /// The reason.
    public var description: String { reason }

    /// True if both say the same, whenever it is tried again.
    func isSame(as other: FileIssue?) -> Bool { kind == other?.kind && reason == other?.reason }
}
