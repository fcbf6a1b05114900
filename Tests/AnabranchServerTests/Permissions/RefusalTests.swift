import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Foundation
import Metrics
import Testing

@testable import AnabranchServer

/// The reason why a session was refused is told to the operator: in the log, and to whoever asks about the user.
@Suite struct RefusalTests {
    private static let rules = "rules: [{path: '\"news\"', right: read}, {path: '\"none\"', right: none}]"

    private static func principal(_ change: (inout Principal.TokenRights) -> Void = { _ in }) -> Principal {
        var principal = Principal(app: "my-app", user: "u1", provider: "anon-user")
        change(&principal.rights)
        return principal
    }

    @Test(arguments: [
        (#""other""#, principal(), "no rule of the file of rules matches"),
        (#""none""#, principal(), "rule 2 of the file of rules is the first one that matches"),
        (#""news""#, principal { $0.permission = .none }, "the token allows no more"),
        (#""news""#, principal { $0.partition = Array("own".utf8) }, "the token is for another partition"),
    ])
    func aRefusalNamesTheUserAndTheReason(partition: String, principal: Principal, reason: String) async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).yaml")
        try Data(Self.rules.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let log = LogLines(), refusals = RecentRefusals { 1_800_000_000 }
        var connection = SyncConnection(
            ConnectionID(number: 1), negotiation: try Negotiation(offer: WebSocketClient.offer), principal: principal,
            authorizer: try await RuleFileAuthorizer(path: file.path, logger: log.logger), limits: Limits(),
            metrics: SyncMetrics(factory: NOOPMetricsHandler.instance), logger: log.logger, refusals: refusals)
        connection.receive(Array("bind 1 \(partition.utf8.count) 0 1 0\n\(partition)".utf8))
        let line = try #require(log.text.split(separator: "\n").first { $0.contains("session failed") })
        for text in ["206", "u1", "anon-user", "partition", reason] { #expect(line.contains(text), "\(line)") }
        let found = refusals.last(10, of: "u1")
        #expect(found.map(\.reason) == ["permission denied: \(reason)"] && found.map(\.code) == ["206"])
        #expect(found.map(\.path) == ["my-app/\(partition)"] && found.map(\.time) == [1_800_000_000])
        #expect(refusals.last(10, of: "u2").isEmpty)
    }

    /// A client that has its file deleted by an operator is told 206 as well: no rule is to blame.
    @Test func anOperatorsDeletionBlamesNoRule() throws {
        let log = LogLines()
        var connection = SyncConnection(
            ConnectionID(number: 1), negotiation: try Negotiation(offer: WebSocketClient.offer),
            principal: Self.principal(), limits: Limits(),
            metrics: SyncMetrics(factory: NOOPMetricsHandler.instance), logger: log.logger)
        connection.receive(Array("bind 1 6 0 1 0\n\"news\"".utf8))
        let isEnded = connection.disconnect(session: 1, deletingLocalFile: true)
        #expect(isEnded)
        let line = try #require(log.text.split(separator: "\n").first { $0.contains("session failed") })
        #expect(line.contains("206") && line.contains("u1") && !line.contains("because"))
    }

    @Test func anAuthorizerOfAProgramSaysWhy() {
        struct Own: Authorizer {
            func permission(for principal: Principal, on partition: [UInt8]) -> Permission { .none }
            func reason(for principal: Principal, on partition: [UInt8]) -> String { "nobody has paid" }
            func refresh() async -> Bool { false }
        }
        let authorizers: [any Authorizer] = [Own(), CallbackAuthorizer { _, _ in .none }]
        let reasons = authorizers.map { $0.reason(for: Self.principal(), on: []) }
        #expect(reasons == ["nobody has paid", "the program that embeds the server decides"])
    }

    @Test func theOldestRefusalsAreForgotten() {
        let refusals = RecentRefusals { 1 }
        for number in 0...RecentRefusals.countMax { refusals.record(of: "u\(number)", code: "206", reason: "") }
        #expect(refusals.last(1, of: "u0").isEmpty && refusals.last(1, of: "u1").count == 1)
        for number in 1...3 { refusals.record(of: "u1", code: "\(number)", reason: "") }
        #expect(refusals.last(2, of: "u1").map(\.code) == ["2", "3"])
    }

    @Test func theRefusalsOfOneUserPushOutNoOthers() {
        let refusals = RecentRefusals { 1 }
        // "é" and "e\u{301}" are one `String`, and two users.
        for user in ["\u{e9}", "e\u{301}"] { refusals.record(of: user, code: "206", reason: user) }
        for number in 0...RecentRefusals.countMax { refusals.record(of: "u", code: "\(number)", reason: "") }
        for user in ["\u{e9}", "e\u{301}"] {
            let found = refusals.last(RecentRefusals.countMax, of: user)
            #expect(found.map { Array($0.reason.utf8) } == [Array(user.utf8)])
        }
        let last = refusals.last(RecentRefusals.countMax, of: "u")
        #expect(last.count == RecentRefusals.ofUserMax && last.last?.code == "\(RecentRefusals.countMax)")
    }
}
