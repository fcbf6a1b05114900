import AnabranchCore
import AnabranchProtocol
import Logging
import Testing

@testable import AnabranchServer

/// The warnings about clients' clocks (`Spec/History.md`, section 6.2).
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
            (2_500_000_000_000, 11, 2_499_999_940), (-350_000_000_000, 11, -350_000_060),
            (-350_000_000_000, 10, -350_000_060),
        ])
    func differences(milliseconds: Int64, version: ServerVersion, seconds: Int64?) throws {
        var clock = ClientClock(start: Self.start, version: 10)
        let time = ChangesetTime(rawValue: UInt64(Int64(Self.start.rawValue) + milliseconds))
        let changes = [Self.change(at: time, knowing: version)]
        #expect(try clock.difference(in: changes, at: Self.start + 60_000, beyondSeconds: 60) { _ in nil } == seconds)
        // Once is enough.
        #expect(try clock.difference(in: changes, at: Self.start + 60_000, beyondSeconds: 60) { _ in nil } == nil)
    }

    @Test(
        "a change from before an earlier one, or from before what the server wrote and it knows, tells of a slow clock",
        arguments: [
            // The times of two changes, and of what the log has before the first of them, before the session.
            (-9_000_000, -9_000_000, nil as Int64?, nil as Int64?), (-9_000_000, -9_070_000, nil, -70),
            (-9_000_000, -9_050_000, nil, nil), (-9_000_000, -8_000_000, -8_900_000, -100),
            (-9_000_000, -8_000_000, -9_900_000, nil), (-9_000_000, -9_100_000, -9_900_000, -100),
            // The earlier one was fast, and is told of; the later one may be right.
            (-100_000, -80_000, 9_000_000, nil), (10_000, -90_000, nil, -100), (0, 10_000, 9_000_000, nil),
        ])
    func laterChangesAreNotDatedEarlier(first: Int64, second: Int64, known: Int64?, seconds: Int64?) throws {
        func time(_ difference: Int64) -> ChangesetTime {
            ChangesetTime(rawValue: UInt64(Int64(Self.start.rawValue) + difference))
        }
        var clock = ClientClock(start: Self.start, version: 10)
        let changes = [first, second].map { Self.change(at: time($0), knowing: 10) }
        let found = try clock.difference(in: changes, at: Self.start + 60_000, beyondSeconds: 60) { _ in
            known.map(time)
        }
        #expect(found == seconds)
    }

    @Test(
        "the log names the client",
        arguments: [(9_000_000_000_000, false), (0, false), (1_000_000, false), (1_000_000, true)] as [(UInt64, Bool)])
    func logLine(wrong: UInt64, isInNextSession: Bool) throws {
        let log = LogLines(), rig = WireRig(logger: log.logger)
        let connection = rig.connect(try Negotiation(offer: WebSocketClient.offer))
        func say(_ text: String) {
            connection.wire.receive(Array(text.utf8))
            rig.run()
        }
        var session = 1
        func upload(_ version: Int, _ time: UInt64) {
            // A changeset that is a string alone.
            let body = "\(version) 0 \(time) 0 4 \u{3F}\u{0}\u{1}T"
            say("upload \(session) 0 \(body.utf8.count) 0 \(version) 0 0\n\(body)")
        }
        var lines: Int { log.text.split(separator: "\n").count { $0.contains("the clock of a client is wrong") } }
        say("bind 1 2 0 1 0\n/f")
        let words = try #require(connection.sent.first.map { SyncMessage($0) }).words
        say("ident 1 \(words[2]) \(words[3]) 0 0 0 0\n")
        // Made long ago, as far as anybody can tell.
        upload(2, 5_000_000)
        #expect(lines == 0)
        if isInNextSession {
            say("unbind 1\n")
            session = 2
            say("bind 2 2 0 0 0\n/f")
            say("ident 2 \(words[2]) \(words[3]) 0 0 0 0\n")
        }
        for version in 3...4 { upload(version, wrong) }
        #expect(lines == 1)
    }
}
