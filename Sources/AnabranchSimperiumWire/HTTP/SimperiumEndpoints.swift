import AnabranchCore
import AnabranchHistory
package import AnabranchServer
import Logging
import NIOHTTP1

/// The HTTP requests of Simperium's clients: logins, and the data of buckets (`Spec/Simperium.md`, sections 11 and 12).
/// For a route with the prefix `/1` that takes bodies of up to `bodyBytesMax` bytes.
package struct SimperiumEndpoints: HTTPEndpoints {
    /// The longest body, in bytes.
    package static let bodyBytesMax = 8 << 20
    /// The longest body of a login, in bytes.
    private static let loginBytesMax = 64 << 10

    private let logins: SimperiumLogins
    private let wire: SimperiumWire

    package init(_ services: AppServices, _ wire: SimperiumWire) {
        logins = SimperiumLogins(services, wire.limits)
        self.wire = wire
    }

    package func respond(to request: EndpointRequest) async -> EndpointResponse {
        guard case .whole(let body) = request.body else { return DataRefusal(.badRequest, "no body").response }
        guard let path = DataPath(request.path) else {
            guard body.count <= Self.loginBytesMax else {
                return DataRefusal(.payloadTooLarge, "the body is too long").response
            }
            return await logins.respond(to: request)
        }
        do {
            let bucket = try await open(path, request)
            guard let query = FormFields(request.query.utf8) else {
                throw DataRefusal(.badRequest, "the query has a malformed escape")
            }
            let response = try await bucket.respond(request, query, body, path.target)
            // A request for changes may have waited for long.
            guard request.method != .GET || wire.permission(for: bucket.principal, on: bucket.file.path) >= .read else {
                throw DataRefusal.noRight
            }
            return response
        } catch let refusal as DataRefusal {
            return refusal.response
        } catch {
            // The client has cut its request, or the server ends.
            if !(error is CancellationError) {
                wire.logger.warning("simperium: a request fails", metadata: ["reason": "\(error)"])
            }
            return DataRefusal(.serviceUnavailable, "try again later").response
        }
    }

    /// The user of a token, or the one for whom an administrator acts.
    private func principal(of request: EndpointRequest, _ app: String) async throws(DataRefusal) -> Principal {
        let token = request.headers.first(name: "X-Simperium-Token") ?? ""
        let user = request.headers.first(name: "X-Simperium-User"), admission: Admission
        if wire.limits.app(app)?.administrators.contains(token) == true {
            guard let user else { throw DataRefusal(.badRequest, "X-Simperium-User is needed") }
            admission = await wire.authenticator.admit(user: user, app: app)
        } else {
            admission = await wire.authenticator.admit(token: token, app: app)
        }
        switch admission {
        case .admitted(let principal):
            guard user == nil || user == principal.user else {
                throw DataRefusal(.unauthorized, "the token is another user's")
            }
            return principal
        case .tokenRefused, .userRefused:
            throw DataRefusal(.unauthorized, "the token is unknown or has ended, or the app has no such user")
        case .unavailable: throw DataRefusal(.serviceUnavailable, "try again later")
        }
    }

    /// Finds the bucket of a path, after checking the token of the request.
    private func open(_ path: DataPath, _ request: EndpointRequest) async throws -> HTTPBucket {
        guard let app = wire.limits.appName(path.app) else { throw DataRefusal(.notFound, "no such app") }
        let principal = try await principal(of: request, app)
        guard let user = principal.user else { throw DataRefusal(.unauthorized, "the token is nobody's") }
        guard BucketName.isValid(path.bucket), let settings = wire.limits.app(app)?.settings(of: path.bucket) else {
            throw DataRefusal(.notFound, "no such bucket")
        }
        let filePath = SimperiumWire.path(of: path.bucket, settings, for: user, app: principal.app)
        let permission = wire.permission(for: principal, on: filePath)
        guard permission >= .read else { throw DataRefusal.noRight }
        let file = try wire.file(at: filePath)
        try await file.openDoor()
        do { _ = try await file.findBucket(path.bucket, settings.form) } catch let problem as BucketProblem {
            wire.report(problem, with: path.bucket, of: file.path)
            throw DataRefusal(.notFound, "no class of that bucket: \(problem.reason)")
        }
        return HTTPBucket(
            name: path.bucket, file: file, settings: settings, principal: principal, isWritable: permission >= .write,
            newsSeconds: wire.limits.newsSeconds, changesPerMinuteMax: wire.limits.changesPerMinuteMax,
            skipsPerMinuteMax: wire.limits.skipsPerMinuteMax)
    }
}

/// The refusal of a request: a status, and the reason as plain text.
struct DataRefusal: Error {
    let status: HTTPResponseStatus
    let reason: String

    init(_ status: HTTPResponseStatus, _ reason: String) {
        self.status = status
        self.reason = reason
    }

    static let noRight = DataRefusal(.unauthorized, "no right to the bucket")

    var response: EndpointResponse { EndpointResponse(status: status, contentType: "text/plain", text: reason) }
}
