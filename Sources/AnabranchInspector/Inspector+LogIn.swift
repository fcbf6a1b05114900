import AnabranchCore
import AnabranchServer
import NIOHTTP1

/// The people who may open the pages: holders of the admin interface's token, and users with the right.
extension Inspector {
    /// Somebody who may open the pages.
    struct Onlooker {
        /// The ident of the user; nil for a holder of the token.
        let user: String?

        /// The name in the audit trail.
        var name: String { user.map { "inspector, user \($0)" } ?? "inspector" }
    }

    /// Programs send the token with each request that looks; what acts takes the cookie alone.
    func onlooker(_ request: EndpointRequest) async -> Onlooker? {
        if let logIn = logIns.logIn(request.headers, at: access.unixSeconds) {
            guard Origins.isOwn(request.headers) else { return nil }
            guard let session = logIn.session else { return Onlooker(user: nil) }
            // The list may have changed since the log-in.
            guard let user = await access.user(ofLogin: session), administrators.contains(user) else { return nil }
            return Onlooker(user: user)
        }
        guard request.method != .POST, request.headers.contains(name: "authorization") else { return nil }
        return await hasToken(request.headers, from: request.address) ? Onlooker(user: nil) : nil
    }

    /// The admin interface itself compares the token, and counts and logs those that are wrong.
    private func hasToken(_ headers: HTTPHeaders, from address: String?) async -> Bool {
        let probe = EndpointRequest(
            method: .GET, path: "/health", headers: ["Authorization": headers["authorization"].joined(separator: ",")],
            address: address)
        return await access.respond(to: probe).status == .ok
    }

    func checkLogIn(_ request: EndpointRequest) async throws(PageError) -> Onlooker {
        if let onlooker = await onlooker(request) { return onlooker }
        throw PageError(.unauthorized, "NotLoggedIn", "log in with the token of the admin interface")
    }

    func session(_ request: EndpointRequest) async -> EndpointResponse {
        let onlooker = await onlooker(request)
        var members: [String: JSONValue] = [
            "logged_in": .bool(onlooker != nil), "takes_users": .bool(!administrators.isEmpty),
        ]
        if let onlooker {
            members["version"] = .string(version)
            members["writes"] = .bool(mode == .readWrite)
            members["user"] = onlooker.user.map { .string($0) } ?? .null
        }
        return EndpointResponse(status: .ok, text: JSONValue.object(members).encoded)
    }

    /// With `token`, or with `username` and `password` of a user with the right.
    func logIn(_ request: EndpointRequest) async throws(PageError) -> EndpointResponse {
        let body = try request.object()
        let session = body["username"] == nil ? nil : try await logIn(userOf: body, from: request.address)
        if session == nil {
            guard await hasToken(["Authorization": "Bearer \(body["token"]?.string ?? "")"], from: request.address)
            else { throw PageError(.unauthorized, "WrongToken", "this is not the token of the admin interface") }
        }
        var response = EndpointResponse(status: .ok, text: #"{"logged_in":true}"#)
        response.headers.add(
            name: "Set-Cookie",
            value: logIns.newCookie(at: access.unixSeconds, for: session, isSecure: request.isSecure))
        return response
    }

    private func logIn(userOf body: JSONValue, from address: String?) async throws(PageError) -> String {
        guard !administrators.isEmpty else {
            throw PageError(
                .forbidden, "NoUsers",
                "no user may log in here: inspector-users in the configuration names those who may, by their idents")
        }
        do throws(AdminAccess.LogInRefusal) {
            return try await access.logIn(body, among: administrators, from: address, for: LogIns.seconds)
        } catch {
            let message =
                switch error.code {
                case "InvalidPassword": "the address and the password are not those of a user who may log in here"
                case "TooManyRequests": "too many attempts: wait a minute"
                case "UserDisabled": "the user is disabled"
                default: error.message
                }
            throw PageError(error.status, error.code, message)
        }
    }

    /// Ends the log-in also for a server that starts later; if that fails, for this one at least.
    func logOut(_ request: EndpointRequest) async -> EndpointResponse {
        let headers = request.headers, time = access.unixSeconds, logIns = logIns
        let session = logIns.logIn(headers, at: time)?.session
        let isEnded = session == nil ? true : await access.endLogin(session ?? "")
        let isNoted: Void? = try? await reads.run { try logIns.end(headers, at: time) }
        var response = EndpointResponse(
            status: .ok, text: #"{"logged_in":false,"remembered":\#(isEnded && isNoted != nil)}"#)
        response.headers.add(name: "Set-Cookie", value: logIns.emptyCookie(isSecure: request.isSecure))
        return response
    }
}
