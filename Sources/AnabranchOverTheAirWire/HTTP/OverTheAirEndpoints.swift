import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchServer
import Crypto
import Logging
import NIOHTTP1
import Synchronization

/// The URL to which the devices of an app send their messages (`Spec/OverTheAirServer.md`, section 1).
struct OverTheAirEndpoints: HTTPEndpoints {
    private let wire: OverTheAirWire
    private let app: String
    private let settings: OverTheAirApp
    private let logins: BasicLogins

    init(_ wire: OverTheAirWire, app: String, _ settings: OverTheAirApp) {
        (self.wire, self.app, self.settings) = (wire, app, settings)
        logins = BasicLogins(wire.services, app: app)
    }

    private static let cookieName = "anabranch-ota"

    func respond(to request: EndpointRequest) async -> EndpointResponse {
        guard request.path == settings.url else { return Self.refusal(.notFound, "not found") }
        guard request.method == .POST else {
            var response = Self.refusal(.methodNotAllowed, "POST only")
            response.headers.add(name: "Allow", value: "POST")
            return response
        }
        let principal: Principal
        switch await admit(request) {
        case .admitted(let admitted): principal = admitted
        case .tokenRefused, .userRefused:
            var response = Self.refusal(.unauthorized, "no valid credentials")
            response.headers.add(name: "WWW-Authenticate", value: "Bearer")
            if request.isSecure { response.headers.add(name: "WWW-Authenticate", value: "Basic realm=\"\(app)\"") }
            return response
        case .unavailable: return Self.busy
        }
        guard let user = principal.user, case .whole(let bytes) = request.body else {
            return Self.refusal(.unauthorized, "no valid credentials")
        }
        let form = PropertyList.Form(sniffing: bytes), session = Self.cookie(of: request).flatMap(wire.session)
        // A message takes many times its bytes once it is read: what is refused anyway is not.
        if let session {
            guard session.user == user, session.app == app else { return refusal(Self.foreignCookie, nil, form) }
            guard wire.hasRoom(for: bytes.count, in: session) else { return Self.busy }
        }
        do throws(MessageError) {
            let limits = PropertyListLimits(bytesMax: wire.settings.messageBytesMax)
            return await answer(try ReceivedMessage(bytes, limits), in: session, request, principal, user)
        } catch {
            guard !error.place.isEmpty || error.code != .badRequest else {
                return Self.refusal(.badRequest, "no property list: \(error.reason)")
            }
            return refusal(error.status, nil, form)
        }
    }

    private static let foreignCookie = Status(.badRequest, "the cookie is another device's")

    /// - Parameter open: the session whose cookie the request has.
    private func answer(
        _ message: ReceivedMessage, in open: OpenSession?, _ request: EndpointRequest, _ principal: Principal,
        _ user: String
    ) async -> EndpointResponse {
        let header = message.header, bytes = message.bytes, form = PropertyList.Form(sniffing: bytes)
        var session = open, isNew = false
        guard session?.device.hasBytes(of: header.deviceID) ?? true else {
            return refusal(Self.foreignCookie, header, form)
        }
        if session == nil, header.sequence == 1 {
            let open = wire.session(of: header.deviceID, user, app)
            session = open.flatMap { $0.isFirst(bytes) ? $0 : nil } ?? wire.open(header.deviceID, user, app)
            guard session != nil else { return Self.busy }
            isNew = true
        }
        guard let session else {
            return refusal(Status(.badRequest, "there is no such session, or it has ended"), header, form)
        }
        guard wire.hasRoom(for: bytes.count, in: session) else { return Self.busy }
        let permission = wire.authorizer.permission(
            for: principal, on: settings.partition(of: user).bytes)
        let isAllowed = permission >= .read && Self.is(header.userID, principal)
        do {
            let answer = try await session.answer(
                message, isAllowed: isAllowed, canWrite: permission >= .write)
            var response = Self.response(answer, form)
            if isNew {
                let secure = request.isSecure ? "; Secure" : ""
                response.headers.add(
                    name: "Set-Cookie",
                    value: "\(Self.cookieName)=\(session.cookie); Path=\(settings.url); HttpOnly\(secure)")
            }
            return response
        } catch is ForgottenAnswer {
            return refusal(
                Status(.badRequest, "the message came before, and its answer is not kept any more"), header, form)
        } catch {
            wire.logger.warning(
                "ota: a message is not answered", metadata: ["user": "\(user)", "reason": "\(error)"])
            return Self.busy
        }
    }

    /// True if a text names the user: by the ident, or the e-mail address.
    private static func `is`(_ text: String, _ principal: Principal) -> Bool {
        if principal.user.map(text.hasBytes(of:)) ?? false { return true }
        let data = try? JSONValue(parsing: Array(principal.data.utf8))
        return data?["email"]?.string.map(text.hasBytes(of:)) ?? false
    }

    // MARK: Credentials

    private func admit(_ request: EndpointRequest) async -> Admission {
        let values = request.headers["authorization"]
        guard values.count == 1 else { return .tokenRefused(reason: "no credentials") }
        let words = values[0].split(separator: " ", maxSplits: 1)
        guard words.count == 2 else { return .tokenRefused(reason: "no credentials") }
        switch words[0].lowercased() {
        case "bearer":
            return await wire.services.admit(accessToken: String(words[1]), app: app, from: request.address)
        case "basic" where request.isSecure:
            return await logins.admit(String(words[1]), from: request.address)
        default: return .tokenRefused(reason: "another kind of credentials, or a password without TLS")
        }
    }

    private static func cookie(of request: EndpointRequest) -> String? {
        for value in request.headers[canonicalForm: "cookie"] {
            for pair in value.split(separator: ";") {
                let parts = pair.drop { $0 == " " }.split(separator: "=", maxSplits: 1)
                if parts.count == 2, parts[0] == cookieName { return String(parts[1]) }
            }
        }
        return nil
    }

    // MARK: Responses

    private func refusal(_ status: Status, _ header: Message.Header?, _ form: PropertyList.Form) -> EndpointResponse {
        var session = DeviceSession(serverID: wire.settings.serverID)
        let message = session.refusal(status, of: header)
        return (try? message.encoded(as: form)).map { Self.response($0, form) } ?? Self.refusal(.badRequest, "")
    }

    private static func response(_ bytes: [UInt8], _ form: PropertyList.Form) -> EndpointResponse {
        let type = form == .xml ? "text/xml" : "application/octet-stream"
        return EndpointResponse(status: .ok, headers: ["Content-Type": type], body: .whole(bytes))
    }

    private static func refusal(_ status: HTTPResponseStatus, _ text: String) -> EndpointResponse {
        EndpointResponse(status: status, contentType: "text/plain", text: text)
    }

    private static var busy: EndpointResponse {
        var response = refusal(.serviceUnavailable, "try again later")
        response.headers.add(name: "Retry-After", value: "5")
        return response
    }
}

/// Logins by user name and password: the first request of a device logs in, and the others are known by a digest of
/// their header until the login ends.
final class BasicLogins: Sendable {
    private let services: AppServices
    private let app: String
    private let tokens = Mutex<[[UInt8]: String]>([:])
    private let key = SymmetricKey(size: .bits256)

    /// How many logins are remembered.
    private static let loginsMax = 10_000

    init(_ services: AppServices, app: String) { (self.services, self.app) = (services, app) }

    func admit(_ credentials: String, from address: String?) async -> Admission {
        let digest = Array(HMAC<SHA256>.authenticationCode(for: Array(credentials.utf8), using: key))
        if let token = tokens.withLock({ $0[digest] }) {
            let admission = await services.admit(plainToken: token, app: app)
            if case .tokenRefused = admission { tokens.withLock { $0[digest] = nil } } else { return admission }
        }
        guard let bytes = Base64.decode(credentials.utf8), let colon = bytes.firstIndex(of: UInt8(ascii: ":")),
            let name = String(validating: bytes[..<colon], as: UTF8.self),
            let password = String(validating: bytes[(colon + 1)...], as: UTF8.self)
        else { return .tokenRefused(reason: "the credentials are malformed") }
        do {
            let login = try await services.logIn(name, password: password, to: app, isNew: false, from: address)
            tokens.withLock { tokens in
                if tokens.count >= Self.loginsMax { tokens = [:] }
                tokens[digest] = login.token
            }
            return await services.admit(plainToken: login.token, app: app)
        } catch {
            return error.status.code >= 500 || error.status == .tooManyRequests
                ? .unavailable : .tokenRefused(reason: "\(error.code)")
        }
    }
}
