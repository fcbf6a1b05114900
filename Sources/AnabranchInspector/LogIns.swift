import AnabranchServer
import Crypto
import Foundation
import NIOHTTP1
import Synchronization

/// The log-ins to the inspector. A cookie tells when its log-in ends, and is signed with the token of the admin
/// interface: so it outlives a restart of the server, but no change of the token.
final class LogIns: Sendable {
    /// How long a log-in lasts, in seconds.
    static let seconds: UInt64 = 12 * 3_600
    /// How many log-ins that were ended early are remembered.
    private static let endedMax = 10_000

    private let token: AdminToken
    /// Two servers on one machine share the cookies of a browser, so each has a name of its own.
    private let name: String
    /// The ends of log-ins that have been ended before, by their nonces.
    private let ended = Mutex<[String: UInt64]>([:])

    init(_ token: AdminToken) {
        self.token = token
        name = "anabranch-" + Self.hexadecimal(token.signature(of: "the inspector's cookie").prefix(4))
    }

    private static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    func newCookie(at time: UInt64, isSecure: Bool) -> String {
        var generator = SystemRandomNumberGenerator()
        let nonce = (0..<2).map { _ in String(generator.next(), radix: 16) }.joined()
        let text = "\(time + Self.seconds).\(nonce)"
        return cookie("\(text).\(signature(of: text))", seconds: Self.seconds, isSecure)
    }

    func emptyCookie(isSecure: Bool) -> String { cookie("", seconds: 0, isSecure) }

    private func cookie(_ value: String, seconds: UInt64, _ isSecure: Bool) -> String {
        "\(name)=\(value); Path=/; Max-Age=\(seconds); HttpOnly; SameSite=Strict\(isSecure ? "; Secure" : "")"
    }

    private func signature(of text: String) -> String {
        Self.hexadecimal(token.signature(of: "a log-in to the inspector until \(text)"))
    }

    /// True if a request has a cookie whose log-in has not ended.
    func has(_ headers: HTTPHeaders, at time: UInt64) -> Bool {
        guard let (end, nonce) = logIn(of: headers), end > time else { return false }
        return ended.withLock { $0[nonce] == nil }
    }

    /// Ends the log-in of a request.
    func end(_ headers: HTTPHeaders, at time: UInt64) {
        guard let (end, nonce) = logIn(of: headers) else { return }
        ended.withLock { ended in
            ended = ended.filter { $0.value > time }
            // Whoever ends so many is the operator. The oldest are over first.
            if ended.count >= Self.endedMax, let oldest = ended.min(by: { $0.value < $1.value }) {
                ended[oldest.key] = nil
            }
            ended[nonce] = end
        }
    }

    private func logIn(of headers: HTTPHeaders) -> (end: UInt64, nonce: String)? {
        let cookies = headers[canonicalForm: "cookie"].flatMap { $0.split(separator: ";") }
        for cookie in cookies {
            let parts = cookie.drop { $0 == " " }.split(separator: "=", maxSplits: 1)
            guard parts.count == 2, parts[0] == name else { continue }
            let words = parts[1].split(separator: ".", omittingEmptySubsequences: false)
            guard words.count == 3, let end = UInt64(words[0]) else { continue }
            let expected = signature(of: "\(words[0]).\(words[1])")
            // Digests are compared, so that the time it takes tells nothing about the signature.
            if SHA256.hash(data: Data(expected.utf8)) == SHA256.hash(data: Data(words[2].utf8)) {
                return (end, String(words[1]))
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
