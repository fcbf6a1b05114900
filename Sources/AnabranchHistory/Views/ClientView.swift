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
    package internal(set) var log = ViewLog()

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

    /// - Parameters:
    ///   - changeset: what the view has of the entry.
    ///   - share: what the changeset has in common with those of other views.
    mutating func append(
        _ entry: LogEntry, _ changeset: [UInt8], clientVersion: ClientVersion, share: ViewShare? = nil
    ) {
        if changeset == entry.changeset { return log.append(entry, clientVersion: clientVersion) }
        log.append(
            entry.version, clientVersion: clientVersion, timestamp: entry.timestamp, origin: entry.originOnWire,
            ViewEntry.Contents(changeset: changeset), share: share)
    }

    /// Appends an entry that is to be met before the log has it.
    mutating func appendMet(_ entry: LogEntry, clientVersion: ClientVersion) {
        log.append(
            entry.version, clientVersion: clientVersion, timestamp: entry.timestamp, origin: entry.originOnWire,
            ViewEntry.Contents(changeset: entry.changeset), isInLog: true)
    }

    /// Appends what no client has made: it yields to whatever the client itself does at the same time.
    mutating func appendSynthetic(
        _ version: ServerVersion, clientVersion: ClientVersion, _ changeset: [UInt8], bootstrap: UInt64? = nil,
        undoing compensation: CompensatingWrite? = nil, share: ViewShare? = nil
    ) {
        log.append(
            version, clientVersion: clientVersion, timestamp: 0, origin: .server,
            ViewEntry.Contents(changeset: changeset, compensation: compensation), bootstrap: bootstrap, share: share)
    }

    /// Forgets what the client has.
    mutating func confirm(_ version: ServerVersion) {
        log.removeFirst(through: version)
    }

    /// Whether a client that has everything up to a version may also have parts of a bootstrap, which it does not drop
    /// before its session begins anew.
    func hasParts(behind version: ServerVersion) -> Bool {
        let sent = log.entries(after: log.number(upTo: version))
        return zip(sent, sent.dropFirst()).contains {
            // What is empty answers a repeated QUERY, and is all that there is to be sent of it.
            $0.bootstrap != nil && $0.bootstrap == $1.bootstrap && $0.version < $1.version && $1.sentBytes > 0
        }
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
    /// The objects, or the first ones of very many.
    package var objects: [Object]

    package init(version: ServerVersion, clientVersion: ClientVersion, objects: [Object]) {
        self.version = version
        self.clientVersion = clientVersion
        self.objects = objects
    }
}

extension CompensatingWrite {
    /// How many objects, and about how many bytes of them, a client is told of one changeset at most: all of them are
    /// undone, and who has thousands refused learns no more from the last one than from the first.
    private static let (objectsMax, bytesMax) = (256, 32 << 10)

    /// As much of it as a client is told.
    var told: CompensatingWrite {
        var bytes = 0
        let told = objects.prefix(Self.objectsMax).prefix { object in
            defer { bytes += object.byteCount }
            return bytes == 0 || bytes + object.byteCount <= Self.bytesMax
        }
        return CompensatingWrite(version: version, clientVersion: clientVersion, objects: Array(told))
    }

    /// About what it takes on the wire and in a store.
    package var byteCount: Int { objects.reduce(64) { $0 + $1.byteCount } }
}

extension CompensatingWrite.Object {
    fileprivate var byteCount: Int {
        let keyBytes = if case .string(let text) = key { text.count } else { 32 }
        return 64 + className.count + keyBytes + reason.utf8.count
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
