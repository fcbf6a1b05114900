import AnabranchCore
import AnabranchServer
import Testing

@testable import AnabranchSimperiumWire

/// One channel of a client on a connection of its own, message by message.
final class Conversation {
    let socket: TextClient
    let client: String
    private var requests = 0

    /// Opens a channel.
    init(
        _ rig: WireRig, _ login: AppServices.PlainLogin, client: String = "node-1", library: String = "node-simperium",
        bucket: String = "note", more: [String: JSONValue] = [:]
    ) async throws {
        self.client = client
        socket = try await rig.connect()
        try await say(
            Frame.opening(login.token, bucket: bucket, client: client, library: library, more: more))
        #expect(try await hear().hasPrefix("0:auth:") == true)
    }

    func say(_ text: String) async throws { try await socket.send(text) }

    func hear() async throws -> String { try await socket.receive() }

    /// The JSON of the next message, which is of a kind.
    func hear(_ command: String) async throws -> JSONValue {
        try #require(try JSON(await hear(), after: "0:\(command):"))
    }

    /// Lists the bucket, and so begins to listen.
    @discardableResult
    func list(_ request: String = "1:::100") async throws -> JSONValue {
        try await say("0:i:\(request)")
        return try await hear("i")
    }

    /// Sends a change.
    /// - Returns: its ccid.
    @discardableResult
    func send(_ operation: String, _ key: String, _ members: [String: JSONValue] = [:]) async throws -> String {
        requests += 1
        let ident = "\(client)-\(requests)"
        try await say(Self.change(operation, key, ident, members))
        return ident
    }

    static func change(_ operation: String, _ key: String, _ ident: String, _ members: [String: JSONValue]) -> String {
        let change: [String: JSONValue] = ["o": .string(operation), "id": .string(key), "ccid": .string(ident)]
        return "0:c:\(JSONValue.object(change.merging(members) { $1 }).encoded)"
    }

    /// The only change, or error, of the next message.
    func change() async throws -> JSONValue {
        let changes = try #require(try await hear("c").array)
        #expect(changes.count == 1)
        return try #require(changes.first)
    }

    /// Sends a change and reads its echo, which is what comes next.
    @discardableResult
    func make(_ operation: String, _ key: String, _ members: [String: JSONValue] = [:]) async throws -> JSONValue {
        let ident = try await send(operation, key, members), change = try await change()
        #expect(change["ccids"] == [.string(ident)])
        return change
    }

    /// Asks for something that is answered, so that everything before it has been handled.
    func isSilent() async throws -> Bool {
        try await say("h:7")
        return try await hear() == "h:8"
    }
}

extension JSONValue {
    /// The difference that adds the text of one member.
    static func adds(_ text: String, to name: String = "t") -> JSONValue {
        .object([name: ["o": "+", "v": .string(text)] as JSONValue])
    }

    /// The difference that edits the text of one member.
    static func edits(_ delta: String, of name: String = "t") -> JSONValue {
        .object([name: ["o": "d", "v": .string(delta)] as JSONValue])
    }
}
