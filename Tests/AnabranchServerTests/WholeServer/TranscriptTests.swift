import AnabranchTesting
import Testing

/// Conversations of real clients with their own servers (`Transcripts/`): our server, told the same, answers the same.
@Suite struct TranscriptTests {
    @Test(
        "a recorded conversation comes out the same, but for salts, log messages and compression",
        arguments: [
            "two-clients", "four-clients-reconnect", "offline-compressed-upload", "multiplexed-sessions",
            "killed-and-reopened", "sdk-app-token", "lists-four-clients", "schema-erasures", "nested-collections",
            "barq-partition", "barq-partition-own-server",
        ])
    func answersLikeTheReference(name: String) throws {
        let replay = TranscriptReplay(try Transcript(name))
        replay.run()
        #expect(replay.differences == [])
        #expect(replay.comparedCount > 0)
        #expect(replay.replacedErrors == [])
    }

    @Test("a client that has seen versions which the server lost is refused with 209, by JSON_ERROR instead of ERROR")
    func serverLostItsData() throws {
        let replay = TranscriptReplay(try Transcript("server-lost-its-data"), restartsBefore: 2)
        replay.run()
        #expect(replay.differences == [])
        #expect(replay.replacedErrors == ["209 to session 1"])
    }
}
