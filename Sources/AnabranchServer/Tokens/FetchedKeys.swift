import AnabranchCore
import AnabranchHTTP
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL

/// The keys of an issuer that publishes them at a URL. They are kept, and fetched again when they are old or when a
/// token names another key.
actor FetchedKeys {
    /// The age at which keys are fetched again before they are used, in seconds.
    static let ageSecondsMax: Int64 = 3_600
    /// The shortest time between two attempts, in seconds: tokens of strangers must not keep the issuer busy.
    static let pauseSecondsMin: Int64 = 60
    /// The longest answer of the issuer, in bytes.
    static let bytesMax = 256 << 10
    /// The longest time that the issuer may take, in seconds.
    static let secondsMax: Int64 = 5

    private let url: String
    private let target: String
    private let exchange: HTTPExchange
    private let logger: Logger
    private var keys: [TokenKey] = []
    private var text: [UInt8] = []
    private var fetchedAt: Int64?
    private var attemptedAt: Int64?
    private var attempt: Task<Void, Never>?

    /// The keys of a URL, which are not fetched yet.
    /// - Parameter authority: a PEM file with the certificates that vouch for the issuer's; nil for the system's.
    /// - Throws: `FileError` if the URL or the file cannot be used.
    init(url: String, authority: String?, logger: Logger) throws {
        guard let parts = WebURL(url, ports: ["http": 80, "https": 443]) else {
            throw FileError(url, "no URL like https://id.example.com/keys")
        }
        let isSecure = parts.scheme == "https"
        guard isSecure || ["localhost", "127.0.0.1", "::1"].contains(parts.host) else {
            throw FileError(url, "only with https: others could put in keys of their own")
        }
        var tls: (@Sendable () throws -> NIOSSLClientHandler)?
        if isSecure {
            var configuration = TLSConfiguration.makeClientConfiguration()
            if let authority { configuration.trustRoots = .file(authority) }
            do {
                let context = try NIOSSLContext(configuration: configuration)
                let name = parts.serverName
                tls = { try NIOSSLClientHandler(context: context, serverHostname: name) }
            } catch {
                throw FileError(authority ?? url, "holds no certificates in PEM")
            }
        }
        self.url = url
        self.logger = logger
        target = parts.target
        exchange = HTTPExchange(
            host: parts.host, port: parts.port, authority: parts.authority, tls: tls, answerBytesMax: Self.bytesMax)
    }

    /// The keys, including the one of that name if the issuer has it.
    /// - Throws: `noKeys` if the issuer may have it, but did not answer when it was last asked.
    func keys(naming ident: String?, now: Int64) async throws(TokenError) -> [TokenKey] {
        var isKnown: Bool { ident.map { name in keys.contains { $0.ident == name } } ?? !keys.isEmpty }
        if !isKnown || !Self.isRecent(fetchedAt, Self.ageSecondsMax, now) { await refresh(now: now) }
        guard isKnown || fetchedAt == attemptedAt else { throw .noKeys }
        return keys
    }

    /// True if a time is less than the given number of seconds ago. If it is in the future, the clock was wrong, and
    /// the answer is false.
    private static func isRecent(_ time: Int64?, _ seconds: Int64, _ now: Int64) -> Bool {
        time.map { (0..<seconds).contains(now - $0) } ?? false
    }

    /// Fetches the keys, unless that was tried just now. Without an answer, the old ones stay.
    func refresh(now: Int64) async {
        if let attempt { return await attempt.value }
        if Self.isRecent(attemptedAt, Self.pauseSecondsMin, now) { return }
        attemptedAt = now
        let attempt = Task {
            do {
                let (keys, text) = try await fetch()
                if !self.text.isEmpty, self.text != text { logger.audit("file", "keys read again", ["path": "\(url)"]) }
                (self.keys, self.text, fetchedAt) = (keys, text, now)
            } catch {
                logger.warning("keys of an issuer not fetched", metadata: ["url": "\(url)", "error": "\(error)"])
            }
        }
        self.attempt = attempt
        await attempt.value
        self.attempt = nil
    }

    /// Fetches the keys that can verify tokens, and their text.
    /// - Throws: `FileError`.
    func fetch() async throws -> (keys: [TokenKey], text: [UInt8]) {
        let answer: HTTPExchange.Answer?
        do {
            answer = try await exchange.answer(
                .GET, target, ["Accept": "application/json"], within: .seconds(Self.secondsMax))
        } catch {
            throw FileError(url, HTTPExchange.reason(error))
        }
        guard let answer else { throw FileError(url, "closes the connection without an answer") }
        switch answer.head.status.code {
        case 200: break
        case 300..<400:
            throw FileError(url, "answers \(answer.head.status.code); redirections are not followed: name their target")
        default: throw FileError(url, "answers \(answer.head.status.code)")
        }
        // A secret that anybody can fetch is not a secret.
        let keys = try TokenKey.keys(in: answer.body, of: url).filter { $0.algorithm != "HS256" }
        guard !keys.isEmpty else { throw FileError(url, "no key for RS256 or ES256") }
        return (keys, answer.body)
    }
}
