import AnabranchCore

/// The reason why a replica cannot carry out a call. Two errors are equal if their codes are.
public struct ReplicaError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of an error.
    public enum Code: Sendable {
        /// The replica's store cannot be read or written; the request was not carried out.
        case storeFailed
        /// The stored data is not what was written.
        case damaged
        /// The store is in a format that this version does not know.
        case unknownFormat
        /// Another process, or another object of this one, works on the store.
        case inUse
        /// The server has sent something that cannot be integrated: the session ends, and the replica stays as it was.
        case badDownload
        /// The server has sent a changeset that is too large to be stored.
        case changesetTooLarge
        /// The request makes no sense in this state of the replica.
        case notAllowed
    }

    /// The kind of the error.
    public let code: Code
    /// The place and the reason, for people.
    public let reason: String

    /// An error with its place and reason.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// True if both have the same code.
    public static func == (left: ReplicaError, right: ReplicaError) -> Bool { left.code == right.code }

    /// The reason.
    public var description: String { reason }

    /// Calls `body`, and turns what a store throws into a `ReplicaError`.
    static func catching<Value>(_ body: () throws -> Value) throws(ReplicaError) -> Value {
        do {
            return try body()
        } catch let error as ReplicaError {
            throw error
        } catch {
            throw ReplicaError(reading: error)
        }
    }

    /// The error of a store that cannot be read.
    package init(reading error: any Error, of place: String? = nil) {
        let isDamage = (error as? ApplyError)?.isDamage ?? false
        self.init(isDamage ? .damaged : .storeFailed, place.map { "\($0): \(error)" } ?? "\(error)")
    }

    /// The error of a download that cannot be integrated.
    init(downloading error: any Error) {
        switch error {
        case let error as ReplicaError: self = error
        case let error as ApplyError where error.code == .unavailable: self.init(reading: error)
        case let error as LogMerge.DecodingError:
            self.init(.badDownload, "the changeset of server version \(error.version): \(error.error)")
        default: self.init(.badDownload, "\(error)")
        }
    }
}
