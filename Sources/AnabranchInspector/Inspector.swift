import AnabranchCore
package import AnabranchServer
package import NIOHTTP1

/// The inspector: pages that show what is in a running server, and why (`Spec/Inspector.md`).
///
/// Each page is a path; with `.json` at its end the path answers what the page shows, as JSON. Pages and assets are the
/// same for everybody and contain no data of the server; everything else needs a log-in, or the token of the admin
/// interface.
package struct Inspector: AdminPages {
    /// The extent of what an operator can do.
    package enum Mode: String, CaseIterable, Sendable {
        /// Looking only.
        case readOnly = "read-only"
        /// Also acting, as with `anabranch admin`.
        case readWrite = "read-write"
    }

    let access: AdminAccess
    let mode: Mode
    let version: String
    let reads: StateReads
    let lists = ObjectLists()
    let listing: FileListing
    let series: MetricSeries
    let logIns: LogIns
    /// The idents of the users who may log in.
    let administrators: Set<String>
    private let assets = Assets()

    /// An inspector of a running server.
    /// - Parameters:
    ///   - version: the server's version, for display.
    ///   - administrators: the idents of the users who may log in, besides the holders of the token.
    ///   - endedLogIns: the file with log-ins that were ended early; nil to forget them with the process.
    package init(
        of access: AdminAccess, mode: Mode, version: String, administrators: Set<String> = [],
        endedLogIns: String? = nil
    ) {
        self.administrators = administrators
        self.access = access
        self.mode = mode
        self.version = version
        reads = StateReads(access)
        listing = FileListing(access.catalog)
        series = MetricSeries(access)
        logIns = LogIns(access.token, path: endedLogIns)
    }

    package func isTrusted(_ head: HTTPRequestHead) -> Bool {
        logIns.logIn(head.headers, at: access.unixSeconds) != nil
    }

    package func respond(to request: EndpointRequest) async -> EndpointResponse {
        var response: EndpointResponse
        do throws(PageError) {
            response = try await answer(request)
        } catch {
            response = error.response
        }
        response.headers.add(contentsOf: Self.headers)
        if !response.headers.contains(name: "Cache-Control") {
            response.headers.add(name: "Cache-Control", value: "no-store")
        }
        return response
    }

    /// Nothing but the inspector's own files runs or is loaded, no text becomes markup, and no other page can hold or
    /// read these.
    static let headers: HTTPHeaders = [
        "Content-Security-Policy": """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
        trusted-types 'none'
        """,
        "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
    ]

    private func answer(_ request: EndpointRequest) async throws(PageError) -> EndpointResponse {
        switch request.method {
        case .GET, .HEAD:
            if let asset = assets.response(to: request) { return asset }
            if Self.pages.contains(request.path) { return assets.page }
            if request.path == "/session.json" { return await session(request) }
            _ = try await checkLogIn(request)
            return EndpointResponse(status: .ok, text: try await look(request))
        case .POST:
            try Origins.check(request)
            if request.path == "/log-in" { return try await logIn(request) }
            let onlooker = try await checkLogIn(request)
            if request.path == "/log-out" { return await logOut(request) }
            return try await act(request, onlooker)
        default: throw PageError(.methodNotAllowed, "MethodNotAllowed", "only GET and POST are answered")
        }
    }

    // MARK: Pages

    /// The paths of pages. Which file, object or version they show stands in their query.
    private static let pages: Set<String> = [
        "/", "/files", "/file", "/objects", "/object", "/history", "/edits", "/version", "/diff", "/clients",
        "/sessions", "/users", "/user", "/log-in", "/world",
    ]

    private func look(_ request: EndpointRequest) async throws(PageError) -> String {
        let query = try PageQuery(request.query)
        return switch request.path {
        case "/overview.json", "/.json": try await overview()
        case "/files.json": try await files(query)
        case "/file.json": try await file(query)
        case "/head.json": try await head(query)
        case "/objects.json": try await objects(query)
        case "/as.json": try await asUser(query)
        case "/facets.json": try await facets(query)
        case "/object.json": try await object(query)
        case "/links.json": try await links(query)
        case "/blame.json": try await blame(query)
        case "/history.json": try await history(query)
        case "/river.json": try await river(query)
        case "/moment.json": try await moment(query)
        case "/edits.json": try await edits(query)
        case "/version.json": try await explanation(query)
        case "/diff.json": try await diff(query)
        case "/clients.json": try await text(of: try await forward("GET /v1/clients", request.query))
        case "/sessions.json": try await text(of: try await forward("GET /v1/sessions", request.query))
        case "/users.json": try await text(of: try await forward("GET /v1/users", request.query))
        case "/user.json": try await user(query)
        default: throw PageError(.notFound, "NotFound", "there is no such page")
        }
    }

    /// The answer of an endpoint of the admin interface.
    func forward(
        _ endpoint: String, _ query: String = "", body: [UInt8] = [], by onlooker: Onlooker = Onlooker(user: nil),
        address: String? = nil
    ) async throws(PageError) -> EndpointResponse {
        let words = endpoint.split(separator: " ")
        let response = await access.answer(
            EndpointRequest(
                method: HTTPMethod(rawValue: String(words[0])), path: String(words[1]), query: query,
                headers: ["X-Operator": onlooker.name], body: .whole(body), address: address))
        guard response.status.code < 400 else { throw PageError(passingOn: response) }
        return response
    }

    func text(of response: EndpointResponse) async throws(PageError) -> String {
        guard case .whole(let bytes) = response.body else { throw .unavailable }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The answer of an endpoint, as a value.
    func json(_ endpoint: String, _ query: String = "") async throws(PageError) -> JSONValue {
        let text = try await text(of: try await forward(endpoint, query))
        guard let value = try? JSONValue(parsing: Array(text.utf8)) else { throw .unavailable }
        return value
    }
}
