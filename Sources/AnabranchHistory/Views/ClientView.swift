package import AnabranchCore
import AnabranchRules

/// What a client file sees of a flexible file: the objects that its queries and its role let it see. Which ones these
/// are is never stored: it follows from the state, and from the log behind `projected` (`BeforeImage`).
package struct ClientView: Sendable {
    package let ident: ClientFileID
    package internal(set) var queries = ViewQueries.empty
    package internal(set) var role: ViewRole
    /// What the user may do since the client came, or since then; nil if it has not come yet. `role` follows when the
    /// view is projected.
    var rules: UserRules?
    /// The number that the client has given the set.
    package internal(set) var queryVersion: UInt64 = 0
    /// The version of the log entry that stands for the last change of queries or role; 0 if nothing was sent
    /// yet.
    package internal(set) var changed: ServerVersion = 0
    /// Up to where `log` says what has happened.
    package internal(set) var projected: ServerVersion = 0
    /// What the client is sent, or was sent and has not confirmed; the versions never go back.
    package internal(set) var log: [ViewEntry] = []
    /// Number of the last entry that there ever was.
    var lastNumber: UInt64 = 0
    /// What the client has to be told of writes that were undone, until it has confirmed the undoing.
    package internal(set) var compensations: [CompensatingWrite] = []

    init(of ident: ClientFileID, role: ViewRole) {
        self.ident = ident
        self.role = role
    }

    /// Whether an object, as it is in a state, belongs to the view.
    func includes(_ object: StateObject, of className: [UInt8], in state: ObjectGraph) throws(HistoryError) -> Bool {
        guard try queries[className].includes(object, in: state) else { return false }
        return try role[className].read.includes(object, in: state)
    }

    func includes(_ object: ObjectReference, of className: [UInt8], in state: ObjectGraph) throws(HistoryError) -> Bool
    {
        guard let found = try state.read(object) else { return false }
        return try includes(found, of: className, in: state)
    }

    // MARK: The log of the view

    mutating func append(_ entry: LogEntry, _ changeset: [UInt8], clientVersion: ClientVersion) {
        append(
            entry.version, clientVersion: clientVersion, timestamp: entry.timestamp, origin: entry.originOnWire,
            changeset)
    }

    /// Appends what no client has made: it yields to whatever the client itself does at the same time.
    mutating func appendSynthetic(
        _ version: ServerVersion, clientVersion: ClientVersion, _ changeset: [UInt8], bootstrap: UInt64? = nil
    ) {
        append(
            version, clientVersion: clientVersion, timestamp: 0, origin: .server, changeset, bootstrap: bootstrap)
    }

    private mutating func append(
        _ version: ServerVersion, clientVersion: ClientVersion, timestamp: ChangesetTime, origin: ClientFileID,
        _ changeset: [UInt8], bootstrap: UInt64? = nil
    ) {
        lastNumber += 1
        log.append(
            ViewEntry(
                number: lastNumber, version: version, clientVersion: clientVersion, timestamp: timestamp,
                origin: origin, changeset: changeset, bootstrap: bootstrap))
    }

    /// The number of the last entry up to a version.
    func number(upTo version: ServerVersion) -> UInt64 {
        log.first { $0.version > version }.map { $0.number - 1 } ?? lastNumber
    }

    /// Forgets what the client has.
    mutating func confirm(_ version: ServerVersion) {
        log.removeFirst(log.prefix { $0.version <= version }.count)
        compensations.removeAll { $0.version <= version }
    }

    /// What `log` occupies beside bootstraps, in bytes: a client that gets one cannot confirm it before its end.
    var logBytes: Int {
        log.reduce(0) { $1.bootstrap == nil ? $0 + $1.changeset.count + ($1.merged?.count ?? 0) + 64 : $0 }
    }
}

/// One changeset that a client is sent.
package struct ViewEntry: Sendable, Equatable {
    /// 1, 2, 3 … of the view.
    package let number: UInt64
    /// What several entries can share.
    package let version: ServerVersion
    /// The newest changeset of the client's own before it.
    package let clientVersion: ClientVersion
    package let timestamp: ChangesetTime
    package let origin: ClientFileID
    /// As it is sent.
    package let changeset: [UInt8]
    /// As it is after the uploads that were merged with it, if that is not the same.
    package var merged: [UInt8]?
    /// Of which set of queries it is part of the bootstrap; nil if of none.
    package let bootstrap: UInt64?

    package init(
        number: UInt64, version: ServerVersion, clientVersion: ClientVersion, timestamp: ChangesetTime,
        origin: ClientFileID, changeset: [UInt8], bootstrap: UInt64?
    ) {
        self.number = number
        self.version = version
        self.clientVersion = clientVersion
        self.timestamp = timestamp
        self.origin = origin
        self.changeset = changeset
        self.bootstrap = bootstrap
    }

    var tag: OriginTag { OriginTag(timestamp: timestamp, ident: origin) }

    var downloaded: DownloadedChangeset {
        DownloadedChangeset(
            cursor: DownloadCursor(serverVersion: version, clientVersion: clientVersion), tag: tag,
            changeset: changeset)
    }
}

/// A write of a client that was left out, and undone on the client.
package struct CompensatingWrite: Sendable, Equatable {
    /// An object that the client has written to, and may not.
    package struct Object: Sendable, Equatable {
        package var className: [UInt8]
        package var key: PrimaryKey
        /// In words for the application's developer.
        package var reason: String

        package init(className: [UInt8], key: PrimaryKey, reason: String) {
            self.className = className
            self.key = key
            self.reason = reason
        }
    }

    /// The version of the entry that undoes it.
    package var version: ServerVersion
    /// The changeset in which it was.
    package var clientVersion: ClientVersion
    package var objects: [Object]

    package init(version: ServerVersion, clientVersion: ClientVersion, objects: [Object]) {
        self.version = version
        self.clientVersion = clientVersion
        self.objects = objects
    }
}

extension ObjectGraph {
    func read(_ object: ObjectReference) throws(HistoryError) -> StateObject? {
        do { return try self.object(object) } catch { throw HistoryError(readingStateFailed: error) }
    }

    func has(_ object: ObjectReference) throws(HistoryError) -> Bool {
        do { return try contains(object) } catch { throw HistoryError(readingStateFailed: error) }
    }
}
