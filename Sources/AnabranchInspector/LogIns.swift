import AnabranchServer
import Crypto
import Foundation
import NIOHTTP1
import Synchronization

/// The log-ins to the inspector. A cookie tells when its log-in ends, and is signed with the token of the admin
/// interface: so it outlives a restart of the server, but no change of the token. Log-ins with the token that were
/// ended early are in a file; those of users are sessions in the account store.
final class LogIns: Sendable {
    /// How long a log-in lasts, in seconds.
    static let seconds: UInt64 = 12 * 3_600
    /// How many log-ins that were ended early are remembered.
    private static let endedMax = 10_000
    private static let userPrefix = "user-"

    /// The log-in of a cookie that is genuine.
    struct LogIn: Equatable {
        /// The second of its end, since 1970.
        fileprivate let end: UInt64
        fileprivate let name: String

        /// The session of a user; nil if it was the token.
        var session: String? {
            name.hasPrefix(LogIns.userPrefix) ? String(name.dropFirst(LogIns.userPrefix.count)) : nil
        }
    }

    private let token: AdminToken
    /// Two servers on one machine share the cookies of a browser, so each has a name of its own.
    private let name: String
    private let path: String?
    /// The ends of log-ins that have been ended before, by their names.
    private let ended: Mutex<[String: UInt64]>

    /// - Parameter path: the file of log-ins that were ended early; nil to forget them with the process. It is made
    ///   with the first one.
    init(_ token: AdminToken, path: String? = nil) {
        self.token = token
        self.path = path
        name = "anabranch-" + Self.hexadecimal(token.signature(of: "the inspector's cookie").prefix(4))
        ended = Mutex(path.map(Self.read) ?? [:])
    }

    /// Reads the file. Malformed lines are skipped.
    private static func read(_ path: String) -> [String: UInt64] {
        let text = FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let pairs = text.split(separator: "\n").prefix(endedMax).compactMap { line -> (String, UInt64)? in
            let words = line.split(separator: " ")
            guard words.count == 2, let end = UInt64(words[0]) else { return nil }
            return (String(words[1]), end)
        }
        return Dictionary(pairs) { max($0, $1) }
    }

    private static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// - Parameter session: that of a user; nil for a log-in with the token.
    func newCookie(at time: UInt64, for session: String? = nil, isSecure: Bool) -> String {
        var generator = SystemRandomNumberGenerator()
        let name =
            session.map { Self.userPrefix + $0 }
            ?? (0..<2).map { _ in String(generator.next(), radix: 16) }.joined()
        let text = "\(time + Self.seconds).\(name)"
        return cookie("\(text).\(signature(of: text))", seconds: Self.seconds, isSecure)
    }

    func emptyCookie(isSecure: Bool) -> String { cookie("", seconds: 0, isSecure) }

    private func cookie(_ value: String, seconds: UInt64, _ isSecure: Bool) -> String {
        "\(name)=\(value); Path=/; Max-Age=\(seconds); HttpOnly; SameSite=Strict\(isSecure ? "; Secure" : "")"
    }

    private func signature(of text: String) -> String {
        Self.hexadecimal(token.signature(of: "a log-in to the inspector until \(text)"))
    }

    /// The log-in of a request, if it has not ended; nil if the cookie is missing or invalid.
    func logIn(_ headers: HTTPHeaders, at time: UInt64) -> LogIn? {
        guard let logIn = logIn(of: headers), logIn.end > time else { return nil }
        return ended.withLock { $0[logIn.name] == nil } ? logIn : nil
    }

    /// Ends the log-in of a request.
    /// - Throws: if the file cannot be written: then it is over until the server restarts.
    func end(_ headers: HTTPHeaders, at time: UInt64) throws {
        guard let logIn = logIn(of: headers) else { return }
        try ended.withLock { ended in
            ended = ended.filter { $0.value > time }
            // Only the operator could end this many. The oldest expire first.
            if ended.count >= Self.endedMax, let oldest = ended.min(by: { $0.value < $1.value }) {
                ended[oldest.key] = nil
            }
            ended[logIn.name] = logIn.end
            guard let path else { return }
            let lines = ended.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.map { "\($0.value) \($0.key)\n" }
            try PrivateFile.write(lines.joined(), to: path)
        }
    }

    private func logIn(of headers: HTTPHeaders) -> LogIn? {
        let cookies = headers[canonicalForm: "cookie"].flatMap { $0.split(separator: ";") }
        for cookie in cookies {
            let parts = cookie.drop { $0 == " " }.split(separator: "=", maxSplits: 1)
            guard parts.count == 2, parts[0] == name else { continue }
            let words = parts[1].split(separator: ".", omittingEmptySubsequences: false)
            guard words.count == 3, let end = UInt64(words[0]) else { continue }
            let expected = signature(of: "\(words[0]).\(words[1])")
            // Digests are compared, so that the time it takes tells nothing about the signature.
            if SHA256.hash(data: Data(expected.utf8)) == SHA256.hash(data: Data(words[2].utf8)) {
                return LogIn(end: end, name: String(words[1]))
            }
        }
        return nil
    }
}

/// The pages from which requests come: only the inspector's own may act.
enum Origins {
    /// - Throws: unless a request that acts comes from a page of the inspector.
    static func check(_ request: EndpointRequest) throws(PageError) {
        let host = request.headers.first(name: "host") ?? ""
        let own = "\(request.isSecure ? "https" : "http")://\(host)"
        guard request.headers["origin"] == [own], isOwn(request.headers),
            request.headers.first(name: "x-inspector") == "1"
        else { throw PageError(.forbidden, "Origin", "only the inspector's own pages may ask for this") }
    }

    /// False if a browser says that a page of somebody else has sent a request.
    static func isOwn(_ headers: HTTPHeaders) -> Bool {
        headers["sec-fetch-site"].allSatisfy { ["same-origin", "none"].contains($0) }
    }
}
