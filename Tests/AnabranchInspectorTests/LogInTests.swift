import AnabranchServer
import Foundation
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
        #expect(logIns.logIn(headers, at: 1_000) != nil && logIns.logIn(headers, at: 999 + LogIns.seconds) != nil)
        #expect(logIns.logIn(headers, at: 1_000 + LogIns.seconds) == nil)
    }

    @Test func itOutlivesTheServerButNoChangeOfTheToken() throws {
        #expect(LogIns(try #require(AdminToken("0123456789abcdef"))).logIn(headers, at: 1_000) != nil)
        #expect(LogIns(try #require(AdminToken("0123456789abcdeg"))).logIn(headers, at: 1_000) == nil)
    }

    /// Each character counts: the time, the nonce and the signature.
    @Test func aChangedCookieIsNone() throws {
        let text = try #require(headers.first(name: "cookie"))
        let start = try #require(text.lastIndex(of: "="))
        for index in text.indices[text.index(after: start)...] {
            var changed = text
            changed.replaceSubrange(index...index, with: text[index] == "1" ? "2" : "1")
            #expect(logIns.logIn(["Cookie": changed], at: 1_000) == nil, "\(changed)")
            #expect(logIns.logIn(["Cookie": String(text[..<index])], at: 1_000) == nil)
        }
        #expect(logIns.logIn(["Cookie": text + "0"], at: 1_000) == nil && logIns.logIn([:], at: 1_000) == nil)
    }

    @Test func onceEndedItIsOver() throws {
        try logIns.end(headers, at: 2_000)
        #expect(logIns.logIn(headers, at: 2_000) == nil)
        let other = logIns.newCookie(at: 2_000, isSecure: true)
        #expect(other.hasSuffix("; HttpOnly; SameSite=Strict; Secure"))
        #expect(logIns.logIn(["Cookie": String(other.prefix { $0 != ";" })], at: 2_000) != nil)
    }

    /// Also for a server that starts later; others go on. What is over anyway leaves the file.
    @Test func onceEndedItIsOverForEver() throws {
        let token = try #require(AdminToken("0123456789abcdef"))
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "log-outs").path
        func cookie(_ time: UInt64) -> HTTPHeaders {
            ["Cookie": String(logIns.newCookie(at: time, isSecure: false).prefix { $0 != ";" })]
        }
        let other = cookie(1_000), later = cookie(1_000 + LogIns.seconds)
        try LogIns(token, path: path).end(headers, at: 2_000)
        #expect(LogIns(token, path: path).logIn(headers, at: 2_000) == nil)
        #expect(LogIns(token, path: path).logIn(other, at: 2_000) != nil)
        try LogIns(token, path: path).end(later, at: 1_000 + LogIns.seconds)
        #expect(LogIns(token, path: path).logIn(later, at: 1_000 + LogIns.seconds) == nil)
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(text.split(separator: "\n").count == 1 && text.hasPrefix("\(1_000 + 2 * LogIns.seconds) "))
        try Data("nonsense\n1 2 3\nx y\n".utf8).write(to: URL(filePath: path))
        #expect(LogIns(token, path: path).logIn(headers, at: 2_000) != nil)
        let nowhere = LogIns(token, path: folder.appending(path: "no/file").path)
        #expect(throws: (any Error).self) { try nowhere.end(headers, at: 2_000) }
        #expect(nowhere.logIn(headers, at: 2_000) == nil, "it is over for this server")
    }

    /// A user's log-in names a session, which no other cookie can.
    @Test func aUsersLogInNamesItsSession() throws {
        #expect(logIns.logIn(headers, at: 1_000)?.session == nil)
        let cookie = logIns.newCookie(at: 1_000, for: "0123", isSecure: false)
        let found = logIns.logIn(["Cookie": String(cookie.prefix { $0 != ";" })], at: 1_000)
        #expect(found?.session == "0123")
    }
}
