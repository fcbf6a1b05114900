import Logging
import Synchronization
import Testing

@testable import AnabranchServer

@Suite struct ServerNoticesTests {
    private final class Clock: Sendable {
        let seconds = Atomic<Int64>(0)
    }

    @Test func anOperatorHearsOnceThatThereIsNoRoomAndOnceThatThereIs() {
        let log = LogLines()
        var notices = ServerNotices(logger: log.logger)
        let full = SpaceReserve.Shortage.disk(path: "/data", free: 6, bytesMin: 7_000)
        for shortage in [nil, full, full, .store(bytes: 9, bytesMax: 8), nil, nil] { notices.tell(shortage) }
        let lines = log.text.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.first?.hasPrefix("warning changes of clients and new files wait") == true)
        #expect(lines.first?.contains("6 B are free at /data, and free-bytes wants 6.8 KiB") == true)
        #expect(lines.last?.hasPrefix("notice there is room again") == true)
    }

    @Test func refusedTokensAreTogetherInALineAMinute() {
        let log = LogLines(), refused = RefusedTokens()
        var notices = ServerNotices(logger: log.logger)
        func lines() -> [Substring] { log.text.split(separator: "\n") }
        notices.tell(refused, at: 0)
        #expect(lines().isEmpty)
        refused.add(isMissing: true, from: "192.0.2.1")
        notices.tell(refused, at: 1)
        #expect(lines().count == 1)
        for _ in 0..<5_000 { refused.add(isMissing: false, from: "192.0.2.2") }
        for second in 2...ServerNotices.refusalSeconds { notices.tell(refused, at: second) }
        #expect(lines().count == 1)
        for second in 1...200 { notices.tell(refused, at: ServerNotices.refusalSeconds + Int64(second)) }
        #expect(lines().count == 2)
        #expect(lines()[1].contains(#""wrong": 5000"#) && lines()[1].contains(#""missing": 0"#))
        #expect(lines()[1].contains("192.0.2.2"))
    }

    @Test func anAddressHasSoManyLinesInAMinute() {
        let log = LogLines(), clock = Clock(), refused = RefusalLines { clock.seconds.load(ordering: .relaxed) }
        var notices = ServerNotices(logger: log.logger)
        func lines() -> [Substring] { log.text.split(separator: "\n") }
        func refuse(_ count: Int, from address: String?) {
            for _ in 0..<count { refused.log("connection refused", from: address, [:], to: log.logger) }
        }
        let countMax = RefusalLines.perMinuteMax
        refuse(countMax + 5, from: "192.0.2.1")
        refuse(1, from: "192.0.2.2")
        refuse(1, from: nil)
        #expect(lines().count == countMax + 2)
        for second in 1...2 { notices.tell([refused], at: Int64(second)) }
        #expect(lines().count == countMax + 3)
        #expect(lines().last?.hasPrefix("warning lines about refused clients are not here") == true)
        #expect(lines().last?.contains(#""count": 5"#) == true)
        clock.seconds.store(60, ordering: .relaxed)
        refuse(1, from: "192.0.2.1")
        notices.tell([refused], at: 100)
        #expect(lines().count == countMax + 4)
    }

    @Test func refusedConnectionsAreTogetherInALineAMinute() {
        let log = LogLines(), metrics = ConnectionMetrics(factory: PrometheusMetrics())
        var notices = ServerNotices(logger: log.logger)
        func lines() -> [Substring] { log.text.split(separator: "\n") }
        notices.tell(metrics.refused, at: 0)
        #expect(lines().isEmpty)
        metrics.turnedAway("address")
        notices.tell(metrics.refused, at: 1)
        #expect(lines().count == 1 && lines()[0].contains(#""count": 1"#))
        for _ in 0..<3 { metrics.turnedAway("address") }
        metrics.turnedAway("user")
        notices.tell(metrics.refused, at: ServerNotices.refusalSeconds)
        #expect(lines().count == 1)
        notices.tell(metrics.refused, at: ServerNotices.refusalSeconds + 1)
        #expect(lines().count == 3 && lines()[1].contains("address") && lines()[1].contains(#""count": 3"#))
        #expect(lines()[2].contains("user"))
    }
}
