import AnabranchServer
import NIOHTTP1
import Testing

@testable import AnabranchInspector

/// The cookie of a log-in.
@Suite struct LogInTests {
    private let logIns: LogIns
    private let headers: HTTPHeaders

    init() throws {
        logIns = LogIns(try #require(AdminToken("0123456789abcdef")))
        let cookie = logIns.newCookie(at: 1_000, isSecure: false)
        headers = ["Cookie": "other=1; \(cookie.prefix { $0 != ";" })"]
    }

    @Test func itLastsForSomeHours() {
        #expect(logIns.has(headers, at: 1_000) && logIns.has(headers, at: 999 + LogIns.seconds))
        #expect(!logIns.has(headers, at: 1_000 + LogIns.seconds))
    }

    @Test func itOutlivesTheServerButNoChangeOfTheToken() throws {
        #expect(LogIns(try #require(AdminToken("0123456789abcdef"))).has(headers, at: 1_000))
        #expect(!LogIns(try #require(AdminToken("0123456789abcdeg"))).has(headers, at: 1_000))
    }

    /// Each character counts: the time, the nonce and the signature.
    @Test func aChangedCookieIsNone() throws {
        let text = try #require(headers.first(name: "cookie"))
        let start = try #require(text.lastIndex(of: "="))
        for index in text.indices[text.index(after: start)...] {
            var changed = text
            changed.replaceSubrange(index...index, with: text[index] == "1" ? "2" : "1")
            #expect(!logIns.has(["Cookie": changed], at: 1_000), "\(changed)")
            #expect(!logIns.has(["Cookie": String(text[..<index])], at: 1_000))
        }
        #expect(!logIns.has(["Cookie": text + "0"], at: 1_000) && !logIns.has([:], at: 1_000))
    }

    @Test func onceEndedItIsOver() {
        logIns.end(headers, at: 2_000)
        #expect(!logIns.has(headers, at: 2_000))
        let other = logIns.newCookie(at: 2_000, isSecure: true)
        #expect(other.hasSuffix("; HttpOnly; SameSite=Strict; Secure"))
        #expect(logIns.has(["Cookie": String(other.prefix { $0 != ";" })], at: 2_000))
    }
}
