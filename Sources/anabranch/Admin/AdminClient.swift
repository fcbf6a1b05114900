import AnabranchCore
import AnabranchHTTP
import AnabranchServer
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL

/// The person who runs the command.
enum Operator {
    /// The machine's name for the user, in visible ASCII, for an HTTP header.
    static var name: String {
        let name = "\(NSUserName())@\(ProcessInfo.processInfo.hostName)"
        return String(decoding: name.utf8.filter { $0 > 0x20 && $0 < 0x7f }, as: UTF8.self)
    }
}

/// The reason why an operator's request failed.
struct AdminError: Error, CustomStringConvertible {
    let description: String
    /// The HTTP status of the answer; nil if there was none.
    var status: UInt?
}

/// Sends requests to the admin interface of a running server (`Spec/Admin.md`).
struct AdminClient {
    private static let answerBytesMax = 64 << 20
    /// The time that an answer may take, unless the server has much to do for it.
    static let timeout = TimeAmount.seconds(30)

    let host: String
    let port: Int
    let token: String
    /// The TLS of the connection; nil for none.
    let tls: NIOSSLContext?
    /// The certificate that the server has to show, if it is known.
    let certificate: NIOSSLCertificate?

    /// - Parameters:
    ///   - address: an address whose URL has scheme, host and port.
    ///   - authority: a PEM file with the certificates that vouch for the server's; nil stands for the certificate of
    ///     the address, or for the system's if it has none.
    init(address: AdminAddress, token: String, authority: String?) throws {
        let url = address.url.wholeMatch(of: /(https?):\/\/\[?([^\[\]\/]+)\]?:([0-9]+)\/?/)
        guard let url, let port = UInt16(url.output.3) else {
            throw AdminError(description: "'\(address.url)' has to be like http://127.0.0.1:9091")
        }
        let known = authority == nil ? address.certificate : nil
        certificate = try known.map { path in
            guard let certificate = try? NIOSSLCertificate.fromPEMFile(path).first else {
                throw AdminError(description: "\(path): holds no certificate that can be read; see --ca")
            }
            return certificate
        }
        host = String(url.output.2)
        self.port = Int(port)
        self.token = token
        guard url.output.1 == "https" else {
            tls = nil
            return
        }
        var configuration = TLSConfiguration.makeClientConfiguration()
        if let authority { configuration.trustRoots = .file(authority) }
        tls = try NIOSSLContext(configuration: configuration)
    }

    /// - Returns: the body of a successful answer.
    func get(_ path: String, _ query: [(String, String?)] = []) async throws -> Data {
        try await send(.GET, Self.uri(path, query), body: Data())
    }

    private static func uri(_ path: String, _ query: [(String, String?)]) -> String {
        let pairs = query.compactMap { name, value in value.map { "\(name)=\(encoded($0))" } }
        return pairs.isEmpty ? path : path + "?" + pairs.joined(separator: "&")
    }

    /// - Returns: the body of a successful answer.
    func post(
        _ path: String, _ query: [(String, String?)], lines: Data, timeout: TimeAmount
    ) async throws -> Data {
        try await send(.POST, Self.uri(path, query), body: lines, timeout)
    }

    /// - Returns: the body of a successful answer.
    func post(
        _ path: String, _ body: some Encodable, timeout: TimeAmount = AdminClient.timeout
    ) async throws -> Data {
        try await send(.POST, path, body: JSONEncoder().encode(body), timeout)
    }

    /// - Returns: the body of a successful answer.
    func post(_ path: String, _ body: JSONValue) async throws -> Data {
        try await send(.POST, path, body: Data(body.encoded.utf8))
    }

    private static func encoded(_ text: String) -> String {
        text.utf8.map { byte in
            let isPlain = (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
            return isPlain ? String(Unicode.Scalar(byte)) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }

    private func send(
        _ method: HTTPMethod, _ uri: String, body: Data, _ timeout: TimeAmount = AdminClient.timeout
    ) async throws -> Data {
        let headers: HTTPHeaders = ["Authorization": "Bearer \(token)", "X-Operator": Operator.name]
        let response = try await exchange(method, uri, headers, [UInt8](body), timeout)
        let answer = Data(response.body)
        guard (200..<300).contains(response.head.status.code) else {
            struct Refusal: Decodable {
                var error: String?, status: String?
            }
            let refusal = try? JSONDecoder().decode(Refusal.self, from: answer)
            throw AdminError(
                description: refusal?.error ?? refusal?.status ?? "the server answers \(response.head.status)",
                status: response.head.status.code)
        }
        return answer
    }

    private func exchange(
        _ method: HTTPMethod, _ uri: String, _ headers: HTTPHeaders, _ body: [UInt8], _ timeout: TimeAmount
    ) async throws -> HTTPExchange.Answer {
        let exchange = HTTPExchange(host: host, port: port, tls: makeTLS, answerBytesMax: Self.answerBytesMax)
        let answer: HTTPExchange.Answer?
        do {
            answer = try await exchange.answer(method, uri, headers, body: body, within: timeout)
        } catch let error as OutgoingConnection.TimeoutError {
            throw AdminError(description: "\(host):\(port): \(error)")
        } catch {
            var reason = HTTPExchange.reason(error)
            if case NIOSSLError.handshakeFailed = error { reason += ": see --ca" }
            throw AdminError(description: "no answer from \(host):\(port): \(reason)")
        }
        guard let answer else {
            throw AdminError(description: "the server closed the connection without an answer")
        }
        return answer
    }

    /// Makes the handler that encrypts a connection; nil for none.
    private var makeTLS: (@Sendable () throws -> NIOSSLClientHandler)? {
        guard let tls else { return nil }
        let name = WebURL.serverName(host), certificate = certificate
        return {
            guard let certificate else { return try NIOSSLClientHandler(context: tls, serverHostname: name) }
            return try NIOSSLClientHandler(context: tls, serverHostname: name) { shown, verdict in
                verdict.succeed(shown.first == certificate ? .certificateVerified : .failed)
            }
        }
    }
}
