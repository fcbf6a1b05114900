package import AnabranchHistory
package import NIOHTTP1

/// Pages for people, on the listener of the admin interface: they answer what is not a path of `AdminRoute`, and check
/// themselves who asks.
package protocol AdminPages: HTTPEndpoints {
    /// True if the head of a request belongs to a logged-in session: the socket then stays open.
    func isTrusted(_ head: HTTPRequestHead) -> Bool
}

/// A running server as pages see it.
package struct AdminAccess: Sendable {
    let endpoints: AdminEndpoints
    let authenticator: any Authenticator
    let authorizer: any Authorizer
    let sessionRefusals: RecentRefusals

    /// Answers a request of the admin interface (`Spec/Admin.md`, section 2) that carries the token, or refuses it.
    package func respond(to request: EndpointRequest) async -> EndpointResponse {
        await endpoints.respond(to: request)
    }

    /// Answers a request of the admin interface, for a caller whose token was checked before.
    package func answer(_ request: EndpointRequest) async -> EndpointResponse { await endpoints.answer(request) }

    /// The token of the interface.
    package var token: AdminToken { endpoints.admin.token }

    /// True if the head of a request carries the token.
    package func hasToken(_ head: HTTPRequestHead) -> Bool { endpoints.hasToken(head) }

    /// The contents of the store.
    package var catalog: any HistoryCatalog { endpoints.admin.catalog }

    /// The store. What reads it keeps nobody waiting who uses the file.
    package var store: any HistoryStore { endpoints.server.files.environment.store }

    /// The name of the file that is meant, in whatever spelling of its partition's value.
    package func file(at path: VirtualPath) -> VirtualPath { endpoints.server.files.environment.names.file(at: path) }

    /// The last refusals of a user's sessions and log-ins, the newest one last.
    package func refusals(of user: String) -> [RecentRefusals.Refusal] {
        let countMax = RecentRefusals.ofUserMax
        let logins = (authenticator as? AppServices)?.loginRefusals.last(countMax, of: user) ?? []
        let all = logins + sessionRefusals.last(countMax, of: user)
        return all.sorted { $0.time < $1.time }.suffix(countMax)
    }

    /// The clock, in seconds since 1970.
    package var unixSeconds: UInt64 { endpoints.server.unixSeconds() }
}
