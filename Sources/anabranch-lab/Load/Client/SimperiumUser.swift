import AnabranchCore
import AnabranchTestClient
import Foundation
import NIOCore
import NIOHTTP1

/// A user of an app whose buckets clients of Simperium's wire sync.
struct SimperiumUser: Sendable {
    let app: String
    let ident: String
    let token: String

    /// Makes a user.
    /// - Throws: `LoadError` if there is no new user.
    init(_ email: String, of app: String, on target: SyncTarget, _ eventLoops: any EventLoopGroup) async throws {
        let body = Data(#"{"username":"\#(email)","password":"a long secret"}"#.utf8)
        let head = HTTPRequestHead(
            version: .http1_1, method: .POST, uri: "/1/\(app)/create/",
            headers: ["Host": target.authority, "Content-Length": "\(body.count)", "Connection": "close"])
        let answer = try await HTTPRequests.exchange(head, body, with: target.host, target.port, on: eventLoops)
        let json = try? JSONValue(parsing: answer.body)
        guard answer.status == .ok, let ident = json?["userid"]?.string, let token = json?["access_token"]?.string
        else { throw LoadError("there is no new user of app '\(app)': the server answers \(answer.status)") }
        (self.app, self.ident, self.token) = (app, ident, token)
    }

    /// The partition with the user's buckets, without the quotes around it.
    var partition: String { "simperium/\(ident)" }
}
