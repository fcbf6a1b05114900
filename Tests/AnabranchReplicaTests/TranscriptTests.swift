import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import AnabranchTesting
import Foundation
import Testing

/// Ten conversations of real clients with the reference's server: a replica with the machine of its session, told the
/// same by the server and by the application, says the same, and replicas that have the same end in the same state.
/// Left out are
///
/// - when a PING is due: it is due when the recorded client has sent it;
/// - into how many UPLOADs changesets are split, and UPLOADs without changesets, which tell how far the client's own
///   log was looked through: a real client numbers also transactions that change nothing that is synchronized, which
///   no transcript shows;
/// - the first words of HTTP, but for the versions that are offered.
@Suite struct TranscriptTests {
    @Test(arguments: [
        "two-clients", "four-clients-reconnect", "offline-compressed-upload", "multiplexed-sessions",
        "killed-and-reopened", "sdk-app-token", "lists-four-clients", "schema-erasures", "nested-collections",
        "server-lost-its-data",
    ])
    func saysWhatARealClientSays(name: String) throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let path = folder.appending(path: "AnabranchServerTests/Transcripts/\(name).jsonl.gz").path
        // The clients of the other transcripts did not wait for a MARK before they uploaded.
        let replay = try TranscriptReplay(try Transcript(path: path), isFast: name != "sdk-app-token")
        try replay.run()
        try replay.compareStates()
        #expect(replay.differences == [])
        #expect(replay.comparedCount > 3)
        #expect(replay.uploadedCount > 0)
        #expect(replay.comparedStates > 0 || name == "server-lost-its-data")
        // The reference answers with the legacy ERROR, which no server may send to clients of this century.
        #expect(replay.violations == (name == "server-lost-its-data" ? [.unknownMessage] : []))
    }
}
