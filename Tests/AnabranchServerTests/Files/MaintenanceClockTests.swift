import AnabranchHistory
import AnabranchSQLite
import Foundation
import Synchronization
import Testing

@testable import AnabranchServer

/// The clock by which client files expire (`Spec/BoundedHistory.md`, section 7).
@Suite struct MaintenanceClockTests {
    private static let day: UInt64 = 86_400

    /// Two clocks that tests turn.
    private final class Clocks: Sendable {
        let wall = Mutex<UInt64>(1_000 * day), monotonic = Mutex<UInt64>(0)

        func advance(wall seconds: Int64, monotonic more: UInt64) {
            wall.withLock { $0 = UInt64(Int64($0) + seconds) }
            monotonic.withLock { $0 += more }
        }

        func clock(_ store: any HistoryStore, _ log: LogLines) -> MaintenanceClock {
            MaintenanceClock(
                store, HistoryPolicy(), logger: log.logger, unixSeconds: { [self] in wall.withLock { $0 } },
                monotonicSeconds: { [self] in monotonic.withLock { $0 } })
        }
    }

    private static func withStore(_ body: (any HistoryStore) throws -> Void) throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("clock-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        let store = try SQLiteStore(directory: directory.path, options: .init(shards: 1))
        try body(store)
        try store.close()
    }

    private static let warning = "the clock has jumped"

    @Test func nobodyExpiresBeforeTheClockWasLookedAt() throws {
        try Self.withStore { store in
            let clock = Clocks().clock(store, LogLines())
            #expect(clock.expiryTime() == nil)
            clock.record()
            #expect(clock.expiryTime() != nil && clock.jump == 0)
        }
    }

    @Test(arguments: [2, -2, 400]) func aJumpIsNoticedAndToldOnce(days: Int64) throws {
        try Self.withStore { store in
            let clocks = Clocks(), log = LogLines(), clock = clocks.clock(store, log)
            clock.record()
            clocks.advance(wall: days * Int64(Self.day), monotonic: 60)
            for _ in 0..<3 { clock.record() }
            #expect(clock.expiryTime() == nil && clock.jump == days * Int64(Self.day) - 60)
            #expect(log.text.split(separator: "\n").count { $0.contains(Self.warning) } == 1)
            #expect(clock.trust() == days * Int64(Self.day) - 60)
            #expect(clock.expiryTime() != nil && clock.jump == 0)
            clock.record()
            #expect(clock.expiryTime() != nil)
        }
    }

    /// A round may begin before the clock is looked at once more.
    @Test func aJumpIsNoticedByWhoAsksForTheTime() throws {
        try Self.withStore { store in
            let clocks = Clocks(), clock = clocks.clock(store, LogLines())
            clock.record()
            clocks.advance(wall: 60, monotonic: 60)
            #expect(clock.expiryTime() == 1_000 * Self.day + 60)
            clocks.advance(wall: 400 * Int64(Self.day), monotonic: 0)
            #expect(clock.expiryTime() == nil)
            // It has not been remembered for that.
            let recorded = try store.recordedTime()
            #expect(recorded == 1_000 * Self.day)
        }
    }

    /// As of a machine that has begun without the time, until it is set.
    @Test func nobodyIsSeenEarlierBecauseTheClockIsBehind() throws {
        try Self.withStore { store in
            let clocks = Clocks(), before = clocks.clock(store, LogLines())
            before.record()
            clocks.advance(wall: -400 * Int64(Self.day), monotonic: 60)
            let restarted = clocks.clock(store, LogLines())
            for clock in [before, restarted] {
                clock.record()
                #expect(clock.expiryTime() == nil && clock.seenTime == 1_000 * Self.day)
            }
            clocks.advance(wall: 401 * Int64(Self.day), monotonic: 60)
            for clock in [before, restarted] { #expect(clock.seenTime == 1_001 * Self.day) }
        }
    }

    @Test func theStoreRemembersTheTimeOverARestart() throws {
        try Self.withStore { store in
            let clocks = Clocks(), log = LogLines()
            clocks.clock(store, log).record()
            clocks.advance(wall: 3_600, monotonic: 3_600)
            let same = clocks.clock(store, log)
            same.record()
            #expect(same.expiryTime() != nil)
            clocks.advance(wall: 40 * Int64(Self.day), monotonic: 0)
            for _ in 0..<2 {
                // It is not remembered before somebody trusts it.
                let late = clocks.clock(store, log)
                late.record()
                #expect(late.expiryTime() == nil)
            }
            let trusted = clocks.clock(store, log)
            trusted.record()
            #expect(trusted.trust() == 40 * Int64(Self.day))
            let next = clocks.clock(store, log)
            next.record()
            #expect(next.expiryTime() != nil)
        }
    }

    @Test func whoIsAwayForTheWholeTimeSinceMayExpire() throws {
        try Self.withStore { store in
            let clocks = Clocks(), clock = clocks.clock(store, LogLines())
            clock.record()
            clocks.advance(wall: 40 * Int64(Self.day), monotonic: 0)
            clock.record()
            clocks.advance(wall: 59 * Int64(Self.day), monotonic: 59 * Self.day)
            clock.record()
            #expect(clock.expiryTime() == nil)
            clocks.advance(wall: Int64(Self.day), monotonic: Self.day)
            clock.record()
            #expect(clock.expiryTime() != nil)
        }
    }
}
