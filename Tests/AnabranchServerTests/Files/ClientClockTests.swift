import AnabranchCore
import AnabranchProtocol
import Logging
import Testing

@testable import AnabranchServer

/// What is noticed of clients' clocks (`Spec/History.md`, section 6.2).
@Suite struct ClientClockTests {
    /// When the session began, in milliseconds since 2015.
    private static let start: ChangesetTime = 350_000_000_000

    private static func change(at time: ChangesetTime, knowing version: ServerVersion) -> UploadedChangeset {
        UploadedChangeset(
            cursor: UploadCursor(clientVersion: 2, serverVersion: version), timestamp: time, changeset: [])
    }

    @Test(
        "a change from the future, or from before what it knows, tells of a wrong clock; an old one does not",
        arguments: [
            (0 as Int64, 10 as ServerVersion, nil as Int64?), (70_000, 10, nil), (130_000, 10, 70), (-1, 10, nil),
            (-3_600_000, 10, nil), (-3_600_000, 11, -3_600), (-60_000, 11, nil), (-61_000, 11, -61),
            (2_500_000_000_000, 11, 2_499_999_940), (-350_000_000_000, 11, -350_000_000),
        ])
    func differences(milliseconds: Int64, version: ServerVersion, seconds: Int64?) {
        var clock = ClientClock(start: Self.start, version: 10)
        let time = ChangesetTime(rawValue: UInt64(Int64(Self.start.rawValue) + milliseconds))
        let changes = [Self.change(at: Self.start, knowing: 10), Self.change(at: time, knowing: version)]
        #expect(clock.difference(in: changes, at: Self.start + 60_000, beyondSeconds: 60) == seconds)
        // Once is enough.
        #expect(clock.difference(in: changes, at: Self.start + 60_000, beyondSeconds: 60) == nil)
    }

    @Test func theLogNamesTheClient() throws {
        let log = LogLines(), rig = WireRig(logger: log.logger)
        let connection = rig.connect(try Negotiation(offer: WebSocketClient.offer))
        func say(_ text: String) {
            connection.wire.receive(Array(text.utf8))
            rig.run()
        }
        say("bind 1 2 0 1 0\n/f")
        let words = try #require(connection.sent.first.map { SyncMessage($0) }).words
        say("ident 1 \(words[2]) \(words[3]) 0 0 0 0\n")
        for (version, time) in [(2, 1_000), (3, 9_000_000_000_000), (4, 9_000_000_000_000)] {
            // A changeset that is a string alone.
            let body = "\(version) 0 \(time) 0 4 \u{3F}\u{0}\u{1}T"
            say("upload 1 0 \(body.utf8.count) 0 \(version) 0 0\n\(body)")
        }
        let lines = log.text.split(separator: "\n").filter { $0.contains("the clock of a client is wrong") }
        #expect(lines.count == 1)
    }
}
