import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// Listings: `{"<name>": […], "next": "…"}`, with `next` if more may follow (`Spec/Admin.md`, section 3).
extension AdminEndpoints {
    func list(_ route: AdminRoute, _ query: ListingQuery) async throws(HTTPError) -> JSONValue {
        switch route {
        case .files: try await files(query)
        case .clients: try await clients(query)
        case .history: try await history(query)
        case .sessions: try await sessions(query)
        case .ingested: try await ingested(query)
        default: try await users(query)
        }
    }

    func page<Element>(
        _ name: String, _ elements: [Element], _ query: ListingQuery, beside others: [String: JSONValue] = [:],
        _ json: (Element) -> JSONValue, next: (Element) -> String
    ) -> JSONValue {
        var members = others
        members[name] = .array(elements.map(json))
        if elements.count == query.countMax, let last = elements.last { members["next"] = .string(next(last)) }
        return .object(members)
    }

    private func files(_ query: ListingQuery) async throws(HTTPError) -> JSONValue {
        let path = try query.afterPath()
        if let user = query.user { return try await files(of: user, after: path, query) }
        let files = try await catalog { catalog throws(HistoryError) in
            try catalog.files(after: path, countMax: query.countMax)
        }
        return page("files", files, query) { file in
            .object(Self.members(of: file, policy))
        } next: {
            $0.path.description
        }
    }

    private func files(
        of user: String, after path: VirtualPath?, _ query: ListingQuery
    ) async throws(HTTPError) -> JSONValue {
        let files = try await catalog { catalog throws(HistoryError) in
            try catalog.files(of: user, after: path, countMax: query.countMax)
        }
        return page("files", files, query) { file in
            [
                "path": .string(file.path.description), "clients_of_user": .integer(Int64(file.ownCount)),
                "other_clients": .integer(Int64(file.otherCount)),
            ]
        } next: {
            $0.path.description
        }
    }

    private func clients(_ query: ListingQuery) async throws(HTTPError) -> JSONValue {
        let path = try path(of: query), ident = ClientFileID(rawValue: try query.afterNumber())
        let clients = try await ofFile(path) { catalog throws(HistoryError) in
            try catalog.clientFiles(of: path, after: ident, countMax: query.countMax)
        }
        let releases = await releases(at: path), queries = try await queries(of: clients.map(\.ident), at: path)
        let channels = ident.rawValue == 0 ? channels(of: path, atMost: query.countMax) : []
        let others = channels.isEmpty ? [:] : ["channels": JSONValue.array(channels)]
        return page("clients", clients, query, beside: others) { client in
            let release = releases[client.ident]
            var members: [String: JSONValue] = [
                "client": JSONValue(client.ident), "user": client.user.map { .string($0) } ?? .null,
                "client_version": JSONValue(client.uploadCursor.clientVersion),
                "server_version": JSONValue(client.uploadCursor.serverVersion),
                "last_seen": client.isExpired ? .null : JSONValue(client.lastSeen),
                "expired": .bool(client.isExpired), "release": release.map { .string("\($0)") } ?? .null,
                "known_defects": .array(release?.knownDefects.map { .string($0.rawValue) } ?? []),
            ]
            if let queries = queries[client.ident] { members["queries"] = queries.json }
            return .object(members)
        } next: {
            "\($0.ident)"
        }
    }

    /// The clients of doors, which have no client files: those that have the file open for the longest time.
    private func channels(of path: VirtualPath, atMost countMax: Int) -> [JSONValue] {
        let channels = server.doors.flatMap { door in door.channels(of: path).map { (door: door.name, channel: $0) } }
        let sorted = channels.sorted {
            ($0.channel.openedAt, $0.channel.client, $0.channel.bucket ?? "")
                < ($1.channel.openedAt, $1.channel.client, $1.channel.bucket ?? "")
        }
        return sorted.prefix(countMax).map { door, channel in
            func text(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
            return [
                "door": .string(door), "user": text(channel.user), "client": .string(channel.client),
                "bucket": text(channel.bucket), "library": text(channel.library),
                "since": JSONValue(channel.openedAt),
            ]
        }
    }

    /// The queries of clients; none without flexible sync.
    private func queries(
        of idents: [ClientFileID], at path: VirtualPath
    ) async throws(HTTPError) -> [ClientFileID: Predicates] {
        do {
            return try await server.files.run(on: path) { file in
                guard file.environment.options.isFlexible(path), let flexible = try file.openedSessions().flexible
                else { return [:] }
                let queries = try idents.compactMap { ident in try flexible.queries(of: ident).map { (ident, $0) } }
                return Dictionary(uniqueKeysWithValues: queries)
            }
        } catch {
            throw blocking.internalError(error)
        }
    }

    /// The releases of the clients that are connected, by the client files that their sessions use.
    private func releases(at path: VirtualPath) async -> [ClientFileID: ClientRelease] {
        let answers = await server.connections.ask { handler in
            let report = handler.report()
            return report.sessions.filter { $0.path == path }.map { (ident: $0.clientIdent, release: report.release) }
        }
        let found = answers.flatMap(\.answer).map { ($0.ident, $0.release) }
        return Dictionary(found, uniquingKeysWith: { $1 })
    }

    private func history(_ query: ListingQuery) async throws(HTTPError) -> JSONValue {
        let path = try path(of: query), version = ServerVersion(rawValue: try query.afterNumber())
        let entries = try await ofFile(path) { catalog throws(HistoryError) in
            try catalog.entries(of: path, after: version, countMax: query.countMax)
        }
        return page("history", entries, query) { entry in
            [
                "version": JSONValue(entry.version), "client": JSONValue(entry.origin),
                "client_version": JSONValue(entry.clientVersion), "timestamp": JSONValue(entry.timestamp),
                "bytes": .integer(Int64(entry.changesetBytes)),
            ]
        } next: {
            "\($0.version)"
        }
    }

    private func ofFile<Element: Sendable>(
        _ path: VirtualPath, _ list: @escaping @Sendable (any HistoryCatalog) throws(HistoryError) -> [Element]
    ) async throws(HTTPError) -> [Element] {
        let elements = try await catalog { catalog throws(HistoryError) -> [Element]? in
            try catalog.file(path) == nil ? nil : try list(catalog)
        }
        guard let elements else { throw Self.noSuch("partition: \(path.abbreviated)") }
        return elements
    }

    /// Asks a few connections at a time, because each may have many sessions.
    private func sessions(_ query: ListingQuery) async throws(HTTPError) -> JSONValue {
        let start = try query.afterSession()
        var first = ConnectionID(number: start.connection)
        var found: [(connection: ConnectionID, report: ConnectionReport, session: SessionReport)] = []
        while found.count < query.countMax {
            let reports = await server.connections.ask(from: first, countMax: 64) { $0.report() }
            guard let last = reports.last?.id else { break }
            for (id, report) in reports {
                let isFirst = id.number == start.connection
                for session in report.sessions where !isFirst || session.ident.rawValue > start.session {
                    found.append((id, report, session))
                }
            }
            guard last.number < .max else { break }
            first = ConnectionID(number: last.number + 1)
        }
        return page("sessions", Array(found.prefix(query.countMax)), query) { connection, report, session in
            [
                "connection": JSONValue(connection.number), "session": JSONValue(session.ident),
                "path": .string(session.path.description), "client": JSONValue(session.clientIdent),
                "app": .string(report.principal.app), "user": report.principal.user.map { .string($0) } ?? .null,
                "remote": report.remote.map { .string($0) } ?? .null, "protocol": .string(report.protocolVersion),
                "release": .string("\(report.release)"),
            ]
        } next: { connection, _, session in
            "\(connection.number).\(session.ident)"
        }
    }
}

extension JSONValue {
    /// Idents, versions and times. A number beyond 2^63 − 1, which only a client's timestamp can be, becomes 2^63 − 1.
    init(_ number: UInt64) { self = .integer(Int64(clamping: number)) }

    init(_ number: some TypedNumber) { self.init(number.rawValue) }
}
