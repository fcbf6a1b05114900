import AnabranchCore
package import AnabranchServer
import NIOHTTP1

/// The HTTP requests with which clients get their tokens (`Spec/Simperium.md`, section 11): `POST /1/APP/authorize/`
/// and `POST /1/APP/create/`. For a route with the prefix `/1`.
package struct SimperiumLogins: HTTPEndpoints {
    private let services: AppServices
    private let settings: SimperiumSettings

    package init(_ services: AppServices, _ settings: SimperiumSettings) {
        self.services = services
        self.settings = settings
    }

    package func respond(to request: EndpointRequest) async -> EndpointResponse {
        let parts = request.path.split(separator: "/")
        guard parts.count == 3, parts[0] == "1", let app = settings.appName(String(parts[1])),
            parts[2] == "authorize" || parts[2] == "create"
        else { return Self.refusal(.notFound, "not found") }
        guard request.method == .POST else { return Self.refusal(.methodNotAllowed, "POST only") }
        guard case .whole(let bytes) = request.body, let members = Self.members(bytes),
            let name = members["username"], !name.isEmpty, let password = members["password"], !password.isEmpty
        else { return Self.refusal(.badRequest, "username and password are needed") }
        let keys = settings.app(app)?.apiKeys ?? SecretList()
        let key = request.headers.first(name: "X-Simperium-API-Key") ?? members["client_id"]
        guard keys.isEmpty || key.map(keys.contains) ?? false else {
            return Self.refusal(.unauthorized, "the API key is unknown")
        }
        do {
            let login = try await services.logIn(
                name, password: password, to: app, isNew: parts[2] == "create", from: request.address)
            let answer: JSONValue = [
                "username": .string(name), "access_token": .string(login.token), "userid": .string(login.user),
            ]
            return EndpointResponse(status: .ok, text: answer.encoded)
        } catch {
            switch error.status {
            case .tooManyRequests: return EndpointResponse(status: .tooManyRequests)
            case .unauthorized where error.code == "AuthError":
                return Self.refusal(.forbidden, "verification required")
            case .conflict: return Self.refusal(.conflict, "user already exists")
            case .unauthorized: return Self.refusal(.unauthorized, "invalid password")
            case .badRequest, .notFound: return Self.refusal(error.status, "bad request")
            default: return Self.refusal(.serviceUnavailable, "try again later")
            }
        }
    }

    private static func refusal(_ status: HTTPResponseStatus, _ text: String) -> EndpointResponse {
        EndpointResponse(status: status, contentType: "text/plain", text: text)
    }

    /// The texts of a body. Its first byte says what it is, whatever the client says: some send JSON as a form.
    private static func members(_ bytes: [UInt8]) -> [String: String]? {
        if bytes.first(where: { $0 > 0x20 }) == UInt8(ascii: "{") {
            return (try? JSONValue(parsing: bytes))?.object?.compactMapValues(\.string)
        }
        return FormFields(bytes)?.last
    }
}
