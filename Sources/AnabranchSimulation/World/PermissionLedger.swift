import AnabranchCore
import AnabranchServer

/// The record of what users were permitted, and of the UPLOADs that arrived meanwhile, to check that permissions hold
/// (`Spec/Durability.md`, P8).
///
/// A permission may change between the arrival of an UPLOAD and its integration, or its refusal, and the server may
/// decide at any time in between: it has to accept what the user could write all that time, and to refuse what the user
/// could write at no time of it. When the changes were made, and when they were sent, does not matter.
///
/// In flexible sync roles decide. There the permission to write is that to create objects of `CountedWrites.entry`,
/// whatever the objects have to be like.
struct PermissionLedger {
    /// An UPLOAD with changesets that has arrived at a node, whole.
    struct Upload {
        let client: Int
        let clientFile: SaltedFileID
        /// The client versions of its changesets.
        let versions: [ClientVersion]
        let node: Int
        let connection: UInt64
        /// The moment since which permissions count: the one of the arrival, or an earlier one, if the server has not
        /// followed roles that have changed.
        let since: Int
        /// The answer that the server got when it asked for the permission; nil if it has not asked.
        var answer: Permission?
        /// True once the process that has received it has ended: nothing of it is integrated any more.
        var isLost = false
    }

    private enum Event {
        case permission(Permission)
        case upload(Upload)
    }

    /// All events in order, each with its time in milliseconds since the start of the run.
    private var events: [(time: Int64, user: String, event: Event)] = []

    /// The number of events until now: a point between two of them.
    var moment: Int { events.count }

    mutating func set(_ permission: Permission, of user: String, at time: Int64) {
        events.append((time, user, .permission(permission)))
    }

    mutating func arrived(_ upload: Upload, of user: String, at time: Int64) {
        events.append((time, user, .upload(upload)))
    }

    /// Records that a process has ended.
    mutating func end(_ node: Int) {
        for index in events.indices {
            guard case .upload(var upload) = events[index].event, upload.node == node else { continue }
            upload.isLost = true
            events[index].event = .upload(upload)
        }
    }

    /// The permissions that a user has had since a moment, the one that it had then included. At first users may write.
    func permissions(of user: String, since moment: Int) -> Set<Permission> {
        var permissions: Set = [Permission.write]
        for (index, event) in events.enumerated() where event.user == user {
            guard case .permission(let permission) = event.event else { continue }
            if index < moment { permissions = [permission] } else { permissions.insert(permission) }
        }
        return permissions
    }

    /// The UPLOADs of a user that the condition holds for.
    private func arrivals(of user: String, _ condition: (Upload) -> Bool) -> [Upload] {
        events.compactMap { event in
            guard event.user == user, case .upload(let upload) = event.event, condition(upload) else { return nil }
            return upload
        }
    }

    // MARK: Checking

    /// Checks that the log may have what a user has written: it has arrived, and since then the user could write at
    /// some time.
    /// - Parameters:
    ///   - version: the client version that the log has.
    ///   - entry: the version of the log.
    func checkIntegration(
        of version: ClientVersion, from clientFile: SaltedFileID, of user: String, as entry: ServerVersion,
        at now: Int64
    ) throws {
        let arrivals = arrivals(of: user) {
            $0.clientFile == clientFile && $0.versions.contains(version) && !$0.isLost
        }
        guard !arrivals.contains(where: { permissions(of: user, since: $0.since).contains(.write) }) else { return }
        let problem =
            arrivals.isEmpty
            ? "and no process that still runs has received it from \(user)"
            : "and \(user) could not write when it arrived, nor since"
        throw SimulationFailure(
            """
            P8: version \(entry) is client version \(version) of client file \(clientFile.ident), \(problem)
            \(history(of: user, clientFile.ident))
            \(Self.line(now, "version \(entry) is committed"))
            """)
    }

    /// Checks that a write could be refused: since it has arrived, its user could not write at some time.
    /// - Parameters:
    ///   - version: the client version that the refusal names.
    ///   - connection: the connection that it has come by.
    func checkRefusal(
        of version: ClientVersion, by connection: UInt64, of user: String, at now: Int64
    ) throws {
        let arrivals = arrivals(of: user) { $0.connection == connection && $0.versions.contains(version) }
        guard let last = arrivals.last, permissions(of: user, since: last.since) == [.write] else {
            return try require(!arrivals.isEmpty, "P8: \(user) is refused version \(version), which has not arrived")
        }
        throw SimulationFailure(
            """
            P8: client version \(version) of \(user) is refused, who could write when it arrived, and all the time since
            \(history(of: user, nil))
            \(Self.line(now, "the refusal is heard on connection \(connection)"))
            """)
    }

    /// Checks that a session could be ended by 206: since its connection began, its user could do nothing at some time.
    func checkDenial(of user: String, since moment: Int, at now: Int64) throws {
        try require(
            permissions(of: user, since: moment).contains(.none),
            """
            P8: a session of \(user) is ended, who could read since its connection began
            \(history(of: user, nil))
            \(Self.line(now, "the error is heard"))
            """)
    }

    // MARK: Printing

    /// The permissions of a user, and the UPLOADs of it and of a client file, a line each. A client file of the same
    /// number and another salt is one that a restored backup did not have.
    private func history(of user: String, _ clientFile: ClientFileID?) -> String {
        let lines = events.compactMap { time, other, event -> String? in
            switch event {
            case .permission(let permission):
                return other == user ? Self.line(time, "\(user) has the permission '\(permission)'") : nil
            case .upload(let upload):
                guard other == user || upload.clientFile.ident == clientFile else { return nil }
                return Self.line(
                    time,
                    """
                    \(other) uploads \(upload.versions.map { "\($0)" }.joined(separator: ", ")) as client \
                    \(upload.client) by connection \(upload.connection) to node \(upload.node), as client file \
                    \(upload.clientFile.ident), salt \(upload.clientFile.salt); the server asks and hears \
                    \(upload.answer.map { "'\($0)'" } ?? "nothing")\(upload.isLost ? "; its process has ended" : "")
                    """)
            }
        }
        return ([Self.line(0, "\(user) has the permission 'write'")] + lines).joined(separator: "\n")
    }

    private static func line(_ time: Int64, _ text: String) -> String { "  \(Double(time) / 1000) s: \(text)" }
}
