import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Testing

@testable import AnabranchServer

/// What real clients of Barq have sent, in flexible sync, is taken from the first frame to the last.
@Suite(.timeLimit(.minutes(30))) struct ForkTranscriptTests {
    /// - Parameter name: of a conversation with an earlier build of this server, or with Barq's own.
    @Test(arguments: ["barq-flexible", "barq-flexible-own-server"]) func subscribersAreServed(_ name: String)
        async throws
    {
        let store = InMemoryStore()
        try await ForkRig.run(store: store, flexible: true) { rig async throws in
            var sockets: [Int: WebSocketClient] = [:], salts: [String: String] = [:], answered = 0
            for line in try Transcript(name).lines {
                guard let socket = sockets[line.connection] else {
                    if line.kind == "http" {
                        let offer = line.httpHead.first { $0.hasPrefix("Sec-WebSocket-Protocol: ") }
                        let prefix = try #require(offer?.split(separator: " ")[1].split(separator: "#")[0])
                        sockets[line.connection] = try await rig.open(try rig.token(), prefix: String(prefix))
                    }
                    continue
                }
                switch (line.isFromClient, line.words.first) {
                case (true, _) where line.kind == "binary":
                    var message = line.message
                    message.words = message.words.map { salts[$0] ?? $0 }
                    try await socket.send(message.bytes)
                case (false, "ident"):
                    let ident = try await socket.message()
                    #expect(ident.words.prefix(3) == line.message.words.prefix(3), "line \(line.number)")
                    salts[line.message.words[3]] = ident.words[3]
                case (false, "mark"),
                    (false, "json_error") where line.message.words[1] == "113":
                    var message = try await socket.message()
                    while message.kind == "download" || message.kind == "log_message" {
                        message = try await socket.message()
                    }
                    #expect(message.words.first == line.message.words.first, "line \(line.number): \(message)")
                    #expect(message.words[1] == line.message.words[1], "line \(line.number)")
                    answered += 1
                default: break
                }
            }
            #expect(answered > 7)
        }
        let file = try store.open(VirtualPath(app: "shop"))
        let entries = try store.read(file.id) { view throws(HistoryError) in
            try view.entries(
                in: VersionRange(after: 0, through: file.head.version), excludingOrigin: nil, byteBudget: .max)
        }
        #expect(Set(entries.map(\.origin)).isSuperset(of: [2, 3]))
    }
}
