import AnabranchCore
import AnabranchHistory
import Logging
import NIOHTTP1

/// The endpoints of the admin interface (`Spec/Admin.md`).
struct AdminEndpoints: HTTPEndpoints {
    let admin: AdminInterface
    let server: ServerOperations
    private(set) var logger: Logger
    let blocking: BlockingWork
    let hashes: BlockingWork
    private let commits: CommitCheck
    private let refusedTokens: RefusedTokens

    init(admin: AdminInterface, server: ServerOperations, refusedTokens: RefusedTokens, logger: Logger) {
        self.admin = admin
        self.server = server
        self.refusedTokens = refusedTokens
        self.logger = logger
        blocking = BlockingWork(logger: logger, failureMessage: "the admin interface cannot answer")
        hashes = BlockingWork(
            logger: logger, failureMessage: "a password cannot be hashed", threads: PasswordHash.threads)
        commits = CommitCheck { [catalog = admin.catalog, blocking] in
            (try? await blocking.run { try catalog.checkCommit() }) != nil
        }
    }

    func respond(to request: EndpointRequest) async -> EndpointResponse {
        do throws(HTTPError) { try checkToken(of: request) } catch { return EndpointResponse(error) }
        return await answer(request)
    }

    /// Answers a request that carried a valid token.
    func answer(_ request: EndpointRequest) async -> EndpointResponse {
        do throws(HTTPError) {
            guard let route = AdminRoute(request) else { throw .notFound }
            var endpoints = self
            endpoints.logger[metadataKey: "by"] = "\(Self.operator(of: request))"
            return try await endpoints.answer(route, request)
        } catch {
            return EndpointResponse(error)
        }
    }

    /// Without the token every request gets the same response, whether or not there is such an endpoint.
    private func checkToken(of request: EndpointRequest) throws(HTTPError) {
        let token = Self.token(in: request.headers)
        if let token, admin.token.isMatched(by: token) { return }
        refusedTokens.add(isMissing: token == nil, from: request.address)
        throw HTTPError(
            status: .unauthorized, code: "Unauthorized",
            message: "the token of the admin interface is \(token == nil ? "missing" : "wrong")")
    }

    private static func token(in headers: HTTPHeaders) -> Substring? {
        let values = headers["authorization"]
        return values.count == 1 && values[0].hasPrefix("Bearer ") ? values[0].dropFirst(7) : nil
    }

    /// Returns true if the head of a request shows the token.
    func hasToken(_ head: HTTPRequestHead) -> Bool {
        Self.token(in: head.headers).map { admin.token.isMatched(by: $0) } ?? false
    }

    /// The name that the operator gives, and the address.
    private static func `operator`(of request: EndpointRequest) -> String {
        let name = request.headers["x-operator"].first.map { String($0.prefix(100)) } ?? "operator"
        return request.address.map { "\(name) from \($0)" } ?? name
    }

    /// The route of a request with the token. Nobody else can have the server keep a long body in memory.
    func trustedRoute(of head: HTTPRequestHead) -> HTTPRoute {
        let isLong = AdminRoute.longPaths.contains(head.uri.prefix { $0 != "?" })
        return HTTPRoute(to: self, body: isLong ? .whole(bytesMax: Self.importBytesMax) : nil)
    }

    private func answer(
        _ route: AdminRoute, _ request: EndpointRequest
    ) async throws(HTTPError) -> EndpointResponse {
        switch route {
        case .health: return EndpointResponse(.ok, ["status": "ok"])
        case .ready: return await ready()
        case .metrics: return await metrics()
        case .files, .clients, .history, .sessions, .ingested, .users:
            let query = try ListingQuery(request.query, countMax: admin.settings.listingCountMax)
            return EndpointResponse(.ok, try await list(route, query))
        case .classes: return EndpointResponse(.ok, try await classes(try ListingQuery(request.query, countMax: 1)))
        case .doors: return EndpointResponse(.ok, try await doors(try ListingQuery(request.query, countMax: 1)))
        case .actOnDoor: return EndpointResponse(.ok, try await act(try request.object()))
        case .dropDoor: return EndpointResponse(.ok, try await dropDoor(try request.object()))
        case .importLines:
            let query = try ListingQuery(request.query, countMax: 1)
            return EndpointResponse(.ok, try await importLines(query, request.bytes))
        case .importChanges:
            let query = try ListingQuery(request.query, countMax: 1)
            return EndpointResponse(.ok, try await importChanges(query, request.bytes))
        case .disconnect: return EndpointResponse(.ok, try await disconnect(try request.object()))
        case .expire: return EndpointResponse(.ok, try await expire(try request.object()))
        case .freeIngested: return EndpointResponse(.ok, try await freeIngested(try request.object()))
        case .deleteFile: return EndpointResponse(.ok, try await deleteFile(try request.object()))
        case .file: return EndpointResponse(.ok, try await file(try ListingQuery(request.query, countMax: 1)))
        case .explain: return try await explain(try ListingQuery(request.query, countMax: 1))
        case .maintainFile: return EndpointResponse(.ok, try await maintainFile(try request.object()))
        case .maintainStore: return EndpointResponse(.ok, try await maintainStore())
        case .trustClock: return EndpointResponse(.ok, try await trustClock())
        case .revoke, .disable, .enable: return EndpointResponse(.ok, try await change(route, try request.object()))
        case .user:
            return EndpointResponse(.ok, try await user(try ListingQuery(request.query, countMax: 1)))
        case .addUser: return EndpointResponse(.created, try await addUser(try request.object()))
        case .deleteUser: return EndpointResponse(.ok, try await deleteUser(try request.object()))
        case .setPassword: return EndpointResponse(.ok, try await setPassword(try request.object()))
        case .setData: return EndpointResponse(.ok, try await setData(try request.object()))
        }
    }

    // MARK: State of the server

    private func ready() async -> EndpointResponse {
        guard server.isServing() else {
            return EndpointResponse(.serviceUnavailable, ["status": "not serving"])
        }
        do {
            try await catalog { catalog throws(HistoryError) in _ = try catalog.files(after: nil, countMax: 1) }
            _ = try await accounts { accounts throws(AccountError) in try accounts.users(after: "", countMax: 1) }
        } catch {
            return EndpointResponse(.serviceUnavailable, ["status": "the store does not answer"])
        }
        if let shortage = server.files.environment.space.shortage {
            return EndpointResponse(.serviceUnavailable, ["status": .string(shortage.reason)])
        }
        guard await commits.answer(at: server.unixSeconds()) else {
            return EndpointResponse(.serviceUnavailable, ["status": "the store takes no changes"])
        }
        return EndpointResponse(.ok, ["status": "ready"])
    }

    private func metrics() async -> EndpointResponse {
        let sessions = await server.connections.ask { $0.sessionCount }.reduce(0) { $0 + $1.answer }
        let bytes = server.files.environment.space.bytes
        let looked: [String: Int?] = [
            "anabranch_connections": server.socketCount(), "anabranch_websockets": server.connections.count,
            "anabranch_sessions": sessions, "anabranch_store_free_bytes": bytes.free,
            "anabranch_store_used_bytes": bytes.used,
            "anabranch_store_write_ahead_log_bytes": admin.catalog.writeAheadLogBytes,
            "anabranch_upload_memory_bytes": server.files.budget.bytesInUse,
            "anabranch_message_memory_bytes": server.files.messageMemory.bytesInUse,
            "anabranch_message_memory_waiting": server.files.messageMemory.waitingCount,
            "anabranch_clock_jump_seconds": Int(server.files.environment.clock.jump),
            "anabranch_tls_certificate_end_seconds": server.certificateEnd(),
        ]
        let values = ProcessMetrics.values.merging(looked.compactMapValues { $0.map(Double.init) }) { $1 }
        return EndpointResponse(
            status: .ok, contentType: "text/plain; version=0.0.4; charset=utf-8",
            text: admin.metrics.text(values: values))
    }

    // MARK: Interventions

    private func disconnect(_ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let connection = ConnectionID(number: try body.number("connection"))
        let session = body["session"] == nil ? nil : SessionID(rawValue: try body.number("session"))
        let deletesLocal = body["delete_local"] == true
        guard !deletesLocal || session != nil else { throw .badRequest("delete_local: name the session") }
        let isDone = await server.connections.withConnection(connection) { handler in
            if let session { return handler.disconnect(session: session, deletingLocalFile: deletesLocal) }
            handler.disconnect()
            return true
        }
        guard isDone else { throw Self.noSuch("connection or session") }
        logger.audit(
            "disconnect", "disconnected by the operator",
            [
                "connection": "\(connection)", "session": "\(session.map { "\($0)" } ?? "all")",
                "delete_local": "\(deletesLocal)",
            ])
        return [:]
    }

    private func expire(_ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let path = try await knownFile(of: body)
        let ident = ClientFileID(rawValue: try body.number("client"))
        let isNew: Bool
        do {
            guard body["dry_run"] != true else {
                return try await server.files.run(on: path) { [policy] file in
                    try Self.freed(byExpiring: ident, in: file.openedSessions().file, policy)
                }
            }
            isNew = try await server.files.run(on: path) { file in try file.expire(ident) }
        } catch let error as HistoryError where error.code == .badClientFileIdent {
            throw Self.noSuch("client file")
        } catch {
            throw blocking.internalError(error)
        }
        logger.audit(
            "expire", "client file expired by the operator",
            ["path": "\(path.abbreviated)", "client_ident": "\(ident)"])
        return ["was_expired": .bool(!isNew)]
    }

    private func deleteFile(_ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let path = try await knownFile(of: body)
        let user = body["only_of"] == nil ? nil : try body.text("only_of", bytesMax: .max)
        let isDeleted: Bool
        do {
            isDeleted = try await server.files.delete(path, onlyOf: user)
        } catch {
            throw blocking.internalError(error)
        }
        guard isDeleted else {
            throw HTTPError(status: .conflict, code: "FileInUse", message: "others take part in the file")
        }
        logger.audit("delete", "synced file deleted by the operator", ["path": "\(path.abbreviated)"])
        let store = server.files.environment.store
        let isFreed = try await blocking.run {
            let end = ContinuousClock.now + .seconds(Self.freeingSecondsMax)
            return try store.freeDeleted { .now < end }
        }
        return ["freed": .bool(isFreed)]
    }

    /// How long an operator waits until what a deleted file has occupied is freed. The rest goes with the daily
    /// maintenance.
    private static let freeingSecondsMax = 20

    /// The file that a query means, in whatever spelling of its partition's value.
    func path(of query: ListingQuery) throws(HTTPError) -> VirtualPath {
        server.files.environment.names.file(at: try query.path())
    }

    /// The file that is meant.
    func knownFile(of body: [String: JSONValue]) async throws(HTTPError) -> VirtualPath {
        try await known(try VirtualPath(ofRequest: try body.text("path", bytesMax: .max)))
    }

    /// To open an unknown path would make a file.
    func known(_ path: VirtualPath) async throws(HTTPError) -> VirtualPath {
        let path = server.files.environment.names.file(at: path)
        let isKnown = try await catalog { catalog throws(HistoryError) in try catalog.file(path) != nil }
        guard isKnown else { throw Self.noSuch("partition: \(path.abbreviated)") }
        return path
    }

    static func noSuch(_ thing: String) -> HTTPError {
        HTTPError(status: .notFound, code: "NotFound", message: "no such \(thing)")
    }

    // MARK: The stores

    func catalog<Result: Sendable>(
        _ body: @escaping @Sendable (any HistoryCatalog) throws(HistoryError) -> Result
    ) async throws(HTTPError) -> Result {
        let catalog = admin.catalog
        return try await blocking.run { try body(catalog) }
    }

    func accounts<Result: Sendable>(
        _ body: @escaping @Sendable (any AccountStore) throws(AccountError) -> Result
    ) async throws(HTTPError) -> Result {
        let accounts = admin.accounts
        return try await blocking.run {
            try body(accounts)
        } refusal: { error in
            guard (error as? AccountError)?.code == .nameTaken else { return nil }
            return HTTPError(
                status: .conflict, code: "AccountNameInUse",
                message: "somebody else has the ident, the e-mail address or the name")
        }
    }
}
