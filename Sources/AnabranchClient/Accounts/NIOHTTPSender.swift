import AnabranchHTTP
import NIOCore
import NIOHTTP1

/// Sends HTTP requests with SwiftNIO, each on a connection of its own.
public struct NIOHTTPSender: HTTPSender {
    /// The longest time that a request may take, in milliseconds (`Spec/Protocol.md`, section 1.1).
    public var requestMillisecondsMax = 60_000
    /// The longest body of an answer, in bytes; a longer one is an error.
    public var answerBytesMax = 4 << 20

    /// Makes the empty array into which the body of an answer goes.
    package var makeBody: @Sendable () -> [UInt8] = { [] }

    private let tls: ClientTLS

    /// - Parameter tls: the servers to trust if the URL is one of `https`.
    public init(tls: TLSOptions = TLSOptions()) { self.tls = ClientTLS(tls) }

    /// See `HTTPSender`.
    public func send(_ request: HTTPCall) async throws -> HTTPAnswer {
        guard let url = WebURL(request.url, ports: ["http": 80, "https": 443]) else {
            throw AppError(.invalidURL, "no URL as https://host:port")
        }
        let exchange = HTTPExchange(
            host: url.host, port: url.port, authority: url.authority,
            tls: url.scheme == "https" ? try tls.handlers(for: url.host) : nil, answerBytesMax: answerBytesMax,
            makeBody: makeBody)
        let answer: HTTPExchange.Answer?
        do {
            answer = try await exchange.answer(
                HTTPMethod(rawValue: request.method), url.target,
                HTTPHeaders(request.headers.map { ($0.name, $0.value) }), body: request.body,
                within: .milliseconds(Int64(requestMillisecondsMax)))
        } catch let error as CancellationError {
            throw error
        } catch {
            throw AppError(.noAnswer, "\(url.authority): \(HTTPExchange.reason(error))")
        }
        guard let answer else {
            throw AppError(.noAnswer, "\(url.authority): it closed the connection without an answer")
        }
        return HTTPAnswer(
            status: Int(answer.head.status.code), body: answer.body,
            headers: answer.head.headers.map { (name: $0.name, value: $0.value) })
    }
}
