package import AnabranchCore
package import AnabranchHistory

/// A wire whose clients keep no log of their own: the server keeps records about the objects that they share with
/// everybody else (`Spec/Doors.md`).
package protocol RecordDoor: Sendable {
    /// The observer of the entries of a file of partition-based sync; nil if the door has nothing to do with it.
    func observer(of path: VirtualPath) -> (any RecordObserver)?

    /// The name by which operators know the door, such as `simperium`.
    var name: String { get }

    /// The number of the door: the space of its records.
    var space: UInt16 { get }

    /// The names of the kinds of its records, by their numbers.
    var kindNames: [UInt8: String] { get }

    /// The number of clients that are connected now.
    var connectionCount: Int { get }

    /// The clients that have a file open now.
    func channels(of path: VirtualPath) -> [DoorChannel]

    /// Called when permissions may have changed: clients that are connected are checked again.
    func recheckPermissions()

    /// Called when logins of a user have ended: clients that are connected are checked again.
    func recheckLogins(of user: String)

    /// Carries out an operator's action on an existing file (`POST /v1/doors/act`).
    /// - Parameter arguments: the members of the request other than the file, the door and the action.
    func act(
        _ action: String, on path: VirtualPath, _ arguments: [String: JSONValue]
    ) async throws(DoorActionError) -> DoorAnswer
}

extension RecordDoor {
    /// A door whose clients have nothing open.
    package func channels(of path: VirtualPath) -> [DoorChannel] { [] }

    /// A door whose clients are checked with each request.
    package func recheckPermissions() {}
    package func recheckLogins(of user: String) {}

    /// A door without actions.
    package func act(
        _ action: String, on path: VirtualPath, _ arguments: [String: JSONValue]
    ) async throws(DoorActionError) -> DoorAnswer { throw .unknown("action of this door") }
}

/// A client of a door that has a file open, or a part of it.
package struct DoorChannel: Sendable {
    package var user: String?
    /// The name by which the client is known.
    package var client: String
    /// The part of the file that it has open; nil for all of it.
    package var bucket: String?
    /// Its library and the version of that.
    package var library: String?
    /// When it was opened, in seconds since 1970.
    package var openedAt: UInt64

    package init(user: String?, client: String, bucket: String? = nil, library: String? = nil, openedAt: UInt64) {
        (self.user, self.client, self.bucket) = (user, client, bucket)
        (self.library, self.openedAt) = (library, openedAt)
    }
}

/// The answer of a door to an operator.
package struct DoorAnswer: Sendable {
    package var answer: JSONValue
    /// The text of the audit trail; nil for an action that changes nothing.
    package var audit: String?

    package init(_ answer: JSONValue, audit: String? = nil) { (self.answer, self.audit) = (answer, audit) }
}

/// The reason why a door does not do what an operator asks.
package enum DoorActionError: Error {
    /// The thing named in the request does not exist.
    case unknown(String)
    /// The request is wrong.
    case malformed(String)
    /// The server or its store has failed.
    case failed(any Error)
}
