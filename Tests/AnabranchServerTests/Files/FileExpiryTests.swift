import AnabranchCore
import AnabranchHistory
@testable import AnabranchProtocol
import Testing

@testable import AnabranchServer

/// The expiry of client files in a server, and its reports.
@Suite struct FileExpiryTests {
    private static let path = "//kept"
    private static let day: UInt64 = 86_400

    /// A rig on day 1,000, with two clients that keep the whole log, of which the second went 61 days ago.
    private struct Away {
        let rig: TurnRig
        let clients: [TurnRig.Client]
        let counters = CountingMetrics()

        init() throws {
            rig = TurnRig(keepsState: true, metrics: counters)
            rig.clock.seconds = 939 * day
            clients = try rig.join(path, count: 2)
            rig.upload([TurnRig.object], of: clients[0])
            rig.finish()
            // Who was sent nothing keeps nothing.
            rig.submit(.scan(from: DownloadCursor()), of: clients[1])
            rig.finish()
            rig.upload(TurnRig.updates(9), from: 2, of: clients[0])
            rig.submit(.close, of: clients[1])
            rig.finish()
            rig.clock.seconds = 1_000 * day
        }

        /// Begins a round in which nobody new needs the log.
        func beginRound(expires: Bool = true) {
            let job = FileJob(comesAfterMerge: false) { file in
                guard let file, let sessions = try? file.openedSessions() else { return }
                file.maintenance.round = MaintenanceRound(
                    HistoryPolicy(), at: 1_000 * day, expires: expires, connected: Set(sessions.clientFiles),
                    upTo: sessions.file.version)
            }
            rig.files.submit(job, to: VirtualPath(path))
        }
    }

    @Test(arguments: [true, false]) func whoIsAwayForLongExpiresUnlessTheClockHasJumped(isTrusted: Bool) throws {
        let away = try Away()
        away.beginRound(expires: isTrusted)
        away.rig.finish()
        #expect(try away.clients.map { try away.rig.stored($0)?.isExpired } == [false, isTrusted])
        #expect(away.counters.value("anabranch_client_files_expired_total") == (isTrusted ? 1 : 0))
        away.rig.bind(away.clients[1])
        #expect(away.clients[1].errors.map(\.code) == (isTrusted ? [.clientFileExpired] : []))
        #expect(away.clients[0].errors.isEmpty)
    }

    @Test func whoComesBackMeanwhileEitherIsToldOrStays() throws {
        var outcomes: Set<Bool> = []
        for turns in 0..<12 {
            let away = try Away()
            away.beginRound()
            for _ in 0..<turns { away.rig.takeTurn() }
            away.rig.bind(away.clients[1])
            away.rig.finish()
            let isExpired = try #require(try away.rig.stored(away.clients[1])).isExpired
            #expect(away.clients[1].errors.map(\.code) == (isExpired ? [.clientFileExpired] : []), "after \(turns)")
            outcomes.insert(isExpired)
        }
        #expect(outcomes == [false, true])
    }
}
