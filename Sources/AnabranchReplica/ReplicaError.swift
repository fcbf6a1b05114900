import AnabranchCore

/// Why a replica cannot do what it was asked for. Two are equal if their codes are.
public struct ReplicaError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What is the matter.
    public enum Code: Sendable {
        /// The replica's store cannot be read or written; what was asked for has not happened.
        case storeFailed
        /// What is stored is not what was written.
        case damaged
        /// The store is in a format that this version does not know.
        case unknownFormat
        /// Another process, or another object of this one, works on the store.
        case inUse
        /// The server has sent what cannot be integrated: the session ends, and the replica stays as it was.
        case badDownload
        /// The server has sent a changeset that is too large to be stored.
        case changesetTooLarge
        /// What was asked for makes no sense in this state of the replica.
        case notAllowed
    }

    /// What is the matter.
    public let code: Code
    /// The place and the reason, for people.
    public let reason: String

    /// Puts the parts together.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// Whether both have the same code.
    public static func == (left: ReplicaError, right: ReplicaError) -> Bool { left.code == right.code }

    /// The reason.
    public var description: String { reason }

    /// What a store throws, as a `ReplicaError`.
    static func catching<Value>(_ body: () throws -> Value) throws(ReplicaError) -> Value {
        do {
            return try body()
        } catch let error as ReplicaError {
            throw error
        } catch {
            throw ReplicaError(reading: error)
        }
    }

    /// Why a store cannot be read.
    package init(reading error: any Error, of place: String? = nil) {
        let isDamage = (error as? ApplyError)?.isDamage ?? false
        self.init(isDamage ? .damaged : .storeFailed, place.map { "\($0): \(error)" } ?? "\(error)")
    }

    /// Why a download could not be integrated.
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
