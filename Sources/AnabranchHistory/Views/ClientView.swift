package import AnabranchCore
import AnabranchRules

/// The part of a flexible file that a client file sees: the objects that its queries and its role let it see. Which
/// ones these are is never stored: it follows from the state, and from the log after `projected` (`BeforeImage`).
package struct ClientView: Sendable {
    package let ident: ClientFileID
    package internal(set) var queries = ViewQueries.empty
    package internal(set) var role: ViewRole
    /// The rules of the user since the client came, or newer ones; nil if it has not come yet. `role` follows when the
    /// view is projected.
    var rules: UserRules?
    /// The number that the client has given the set.
    package internal(set) var queryVersion: UInt64 = 0
    /// The version of the log entry that stands for the last change of queries or role; 0 if nothing was sent
    /// yet.
    package internal(set) var changed: ServerVersion = 0
    /// The version up to which `log` says what has happened.
    package internal(set) var projected: ServerVersion = 0
    package internal(set) var log = ViewLog()

    init(of ident: ClientFileID, role: ViewRole) {
        self.ident = ident
        self.role = role
    }

    /// True if an object, as it is in a state, belongs to the view.
    func includes(_ object: StateObject, of className: [UInt8], in state: ObjectGraph) throws(HistoryError) -> Bool {
        guard try queries[className].includes(object, in: state) else { return false }
        return try role[className].read.includes(object, in: state)
    }

    func includes(_ object: ObjectReference, of className: [UInt8], in state: ObjectGraph) throws(HistoryError) -> Bool
    {
        guard let found = try state.read(object, decides(in: className)) else { return false }
        return try includes(found, of: className, in: state)
    }

    /// Says of a slot in a class whether its value decides if an object belongs to the view: only that much of objects
    /// is read, and no picture that nobody asks for.
    func decides(in className: [UInt8]) -> (Int) -> Bool {
        let query = queries[className], role = role[className].read
        return { query.looks(at: $0) || role.looks(at: $0) }
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

    /// Appends an entry that uploads have to meet before the log has it.
    mutating func appendMet(_ entry: LogEntry, clientVersion: ClientVersion) {
        log.append(
            entry.version, clientVersion: clientVersion, timestamp: entry.timestamp, origin: entry.originOnWire,
            ViewEntry.Contents(changeset: entry.changeset), isInLog: true)
    }

    /// Appends a changeset that no client has made: it yields to whatever the client itself does at the same time.
    mutating func appendSynthetic(
        _ version: ServerVersion, clientVersion: ClientVersion, _ changeset: [UInt8], bootstrap: UInt64? = nil,
        undoing compensation: CompensatingWrite? = nil, share: ViewShare? = nil
    ) {
        log.append(
            version, clientVersion: clientVersion, timestamp: 0, origin: .server,
            ViewEntry.Contents(changeset: changeset, compensation: compensation), bootstrap: bootstrap, share: share)
    }

    /// Forgets the entries that the client has.
    /// - Returns: the size of those among them that the store has beside the log, in bytes.
    @discardableResult
    mutating func confirm(_ version: ServerVersion) -> Int { log.removeFirst(through: version) }

    /// True if a client that has everything up to a version may also have parts of a bootstrap, which it does not drop
    /// before its session begins again.
    func hasParts(after version: ServerVersion) -> Bool {
        let sent = log.entries(after: log.number(upTo: version))
        return zip(sent, sent.dropFirst()).contains {
            // An empty entry answers a repeated QUERY, and is all that is sent for it.
            $0.bootstrap != nil && $0.bootstrap == $1.bootstrap && $0.version < $1.version && $1.sentBytes > 0
        }
    }
}

extension ObjectGraph {
    /// - Parameter isWanted: true for the slots of the values that are looked at.
    func read(_ object: ObjectReference, _ isWanted: (Int) -> Bool) throws(HistoryError) -> StateObject? {
        do { return try self.object(object, reading: isWanted) } catch { throw HistoryError(readingStateFailed: error) }
    }

    func has(_ object: ObjectReference) throws(HistoryError) -> Bool {
        do { return try contains(object) } catch { throw HistoryError(readingStateFailed: error) }
    }
}
