import AnabranchCore
import AnabranchHistory
import AnabranchServer
import Testing

@testable import AnabranchSimperiumWire

/// One conversation after the other, as the chapter has them.
@Suite(.timeLimit(.minutes(30))) struct WireTests {
    @Test func aChangeIsEchoedAndListed() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let client = try await rig.connect()
            try await client.send(Frame.opening(login.token))
            try await client.send("0:i:1:::10")
            #expect(try await client.receive() == "0:auth:ann@example.com")
            let page = try #require(try JSON(await client.receive(), after: "0:i:"))
            #expect(page["index"] == [] && page["mark"] == nil && page["current"]?.string?.isEmpty == false)
            try await client.send(#"0:c:{"o":"M","id":"k","ccid":"a1","v":{"t":{"o":"+","v":"abc"}}}"#)
            let change = try #require(try JSON(await client.receive(), after: "0:c:")?.array?.first)
            #expect(change["clientid"] == "node-1" && change["ccids"] == ["a1"] && change["ev"] == 1)
            #expect(change["sv"] == nil && change["v"] == ["t": ["o": "+", "v": "abc"]] && change["id"] == "k")
            try await client.send(#"0:c:{"o":"M","id":"k","ccid":"a2","v":{"t":{"o":"d","v":"=3\t+D"}},"sv":1}"#)
            let next = try #require(try JSON(await client.receive(), after: "0:c:")?.array?.first)
            #expect(next["sv"] == 1 && next["ev"] == 2 && next["v"] == ["t": ["o": "d", "v": "=3\t+D"]])
            try await client.send("0:i:1:::10")
            let list = try #require(try JSON(await client.receive(), after: "0:i:"))
            #expect(list["index"] == [["id": "k", "v": 2, "d": ["t": "abcD"]]])
        }
    }
}

/// The JSON of a message after its beginning; nil if it begins otherwise.
func JSON(_ message: String, after prefix: String) throws -> JSONValue? {
    guard message.hasPrefix(prefix) else {
        Issue.record("another message: \(message)")
        return nil
    }
    return try JSONValue(parsing: message.utf8.dropFirst(prefix.utf8.count), depthMax: 200)
}
