import AnabranchTestClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

/// The requests by which users log in (`Spec/Protocol.md`, section 1.2), each on a connection of its own.
struct HTTPRequests: Sendable {
    private static let answerBytesMax = 1 << 20
    /// The beginning of the path of all requests by clients.
    static let path = "/api/client/v2.0/app/"

    let target: SyncTarget
    let app: String
    let eventLoops: any EventLoopGroup

    /// The ways in which a user logs in.
    enum Credentials: Sendable {
        case anonymous
        case password(email: String, password: String)

        fileprivate var provider: String {
            switch self {
            case .anonymous: "anon-user"
            case .password: "local-userpass"
            }
        }

        fileprivate var body: [String: String] {
            switch self {
            case .anonymous: ["provider": provider]
            case .password(let email, let password):
                ["provider": provider, "username": email, "password": password]
            }
        }
    }

    /// - Returns: the access token.
    /// - Throws: `LoadError` with the server's message.
    func logIn(_ credentials: Credentials) async throws -> String {
        struct Answer: Decodable {
            var access_token: String?
            var error: String?
        }
        let (status, body) = try await post(
            "\(Self.path)\(app)/auth/providers/\(credentials.provider)/login", credentials.body)
        let answer = try? JSONDecoder().decode(Answer.self, from: body)
        guard status == .ok, let token = answer?.access_token else {
            throw LoadError("nobody can log in to app '\(app)': \(answer?.error ?? "the server answers \(status)")")
        }
        return token
    }

    /// Tries a password.
    ///
    /// - Parameter address: an address of this machine from which the request shall come; nil for any.
    /// - Returns: the status of the answer.
    func tryPassword(_ credentials: Credentials, from address: String? = nil) async throws -> HTTPResponseStatus {
        try await post(
            "\(Self.path)\(app)/auth/providers/\(credentials.provider)/login", credentials.body, from: address
        )
        .status
    }

    /// Registers a new user.
    /// - Throws: `LoadError` unless there is a new user with the e-mail address.
    func register(email: String, password: String) async throws {
        let status = try await post(
            "\(Self.path)\(app)/auth/providers/local-userpass/register", ["email": email, "password": password]
        ).status
        guard status == .created || status == .ok else {
            throw LoadError("nobody can register: the server answers \(status)")
        }
    }

    private func post(
        _ path: String, _ body: [String: String], from address: String? = nil
    ) async throws -> (status: HTTPResponseStatus, body: Data) {
        let json = try JSONEncoder().encode(body)
        let head = HTTPRequestHead(
            version: .http1_1, method: .POST, uri: path,
            headers: [
                "Host": target.authority, "Content-Type": "application/json", "Content-Length": "\(json.count)",
                "Connection": "close",
            ])
        return try await Self.exchange(head, json, with: target.host, target.port, on: eventLoops, from: address)
    }

    /// Sends one request on a connection of its own.
    ///
    /// - Throws: `LoadError` if there is no answer.
    static func exchange(
        _ head: HTTPRequestHead, _ body: Data, with host: String, _ port: Int, on eventLoops: any EventLoopGroup,
        from address: String? = nil, answerBytesMax: Int = answerBytesMax
    ) async throws -> (status: HTTPResponseStatus, body: Data) {
        do {
            var bootstrap = ClientBootstrap(group: eventLoops)
            if let address { bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: address, port: 0)) }
            let channel =
                try await bootstrap
                .connect(host: host, port: port) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHTTPClientHandlers()
                        try channel.pipeline.syncOperations.addHandler(
                            NIOHTTPClientResponseAggregator(maxContentLength: answerBytesMax))
                        return try NIOAsyncChannel<NIOHTTPClientResponseFull, HTTPClientRequestPart>(
                            wrappingChannelSynchronously: channel)
                    }
                }
            return try await channel.executeThenClose { inbound, outbound in
                try await outbound.write(.head(head))
                if !body.isEmpty { try await outbound.write(.body(.byteBuffer(ByteBuffer(bytes: body)))) }
                try await outbound.write(.end(nil))
                for try await response in inbound {
                    return (response.head.status, response.body.map { Data($0.readableBytesView) } ?? Data())
                }
                throw LoadError("no answer")
            }
        } catch {
            throw LoadError("no answer from http://\(host):\(port): \(error)")
        }
    }
}
