import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// A log that may hold only so much gets room again as soon as nobody needs what it holds (`Spec/BoundedHistory.md`,
/// section 2).
@Suite struct FullLogTests {
    private static let day: UInt64 = 86_400

    /// Under which the log of a file is full, and nothing else makes a generation due.
    private static func policy(of file: SyncedFile) -> HistoryPolicy {
        var policy = HistoryPolicy()
        policy.logBytesMax = file.head.logBytes - 1
        return policy
    }

    @Test(arguments: StoreKind.allCases) func whereNobodyNeedsALogItGoes(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file, policy = Self.policy(of: file)
        #expect(policy.isFull(file.head) && policy.mayBeDue(for: file.head))
        #expect(!HistoryPolicy().mayBeDue(for: file.head))
        #expect(try file.maintain(at: 1, HistoryPolicy()).isEmpty)
        // Of each generation, however large it is beside what was written.
        for _ in 0..<2 {
            let report = try file.maintain(at: 1, policy)
            #expect(report.generationsMade == 1 && report.trimmedEntries > 0)
            #expect(!policy.isLong(file.head) && !policy.mayBeDue(for: file.head))
            #expect(try file.maintain(at: 1, policy).isEmpty)
            while !policy.isFull(file.head) { try fixture.write(1) }
        }
        try fixture.test.verify()
    }

    @Test(arguments: StoreKind.allCases) func noneIsMadeForNothing(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        let quiet = try file.allocateIdent().ident
        try file.change(quiet) { $0.lineage = .log }
        let policy = Self.policy(of: file)
        #expect(try file.maintain(at: 1, policy).isEmpty)
        #expect(try file.freed(byExpiring: quiet).entries == 0)
        #expect(try file.freed(byExpiring: quiet, under: policy).entries == file.version.rawValue - 1)
        // It has read most, but not enough that much could go.
        try file.change(quiet) {
            ($0.uploadCursor, $0.lockedVersion) = (UploadCursor(clientVersion: 2, serverVersion: 1), 1)
        }
        let beginning = try #require(try file.read { view throws(HistoryError) in try view.entry(1) })
        #expect(beginning.cumulativeSize < policy.worthwhileBytes)
        #expect(try file.maintain(at: 1, policy).isEmpty)
        try file.change(quiet) { ($0.uploadCursor.serverVersion, $0.lockedVersion) = (file.version, file.version) }
        #expect(try file.maintain(at: 1, policy).generationsMade == 1)
        #expect(!policy.isFull(file.head))
        try fixture.test.verify()
    }

    /// Without a generation nobody would expire, and without that there would be none.
    @Test(arguments: StoreKind.allCases) func whoIsToExpireKeepsNothing(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        let quiet = try file.allocateIdent().ident
        try file.change(quiet) { $0.lineage = .log }
        let policy = Self.policy(of: file), lastSeen = try #require(try file.clientFile(quiet)).lastSeen
        try fixture.restart()
        let later = lastSeen + 60 * Self.day
        #expect(try fixture.file.maintain(at: later - 1, policy).isEmpty)
        #expect(try fixture.file.maintain(at: later, policy, expires: false).isEmpty)
        #expect(try fixture.file.maintain(at: later, policy, connected: [quiet]).isEmpty)
        let report = try fixture.file.maintain(at: later, policy)
        #expect(report.generationsMade == 1 && report.expired.contains { $0.ident == quiet })
        #expect(!policy.isFull(fixture.file.head))
        try fixture.test.verify()
    }

    /// It cannot get shorter.
    @Test(arguments: StoreKind.allCases) func aLogOfOneEntryIsNotFull(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind, writes: 3), file = fixture.file
        var policy = HistoryPolicy()
        policy.logBytesMax = 1
        for _ in 0..<3 {
            #expect(policy.isFull(file.head))
            try file.maintain(at: 1, policy)
            #expect(file.head.logBytes > 1 && file.head.baseVersion == file.version - 1 && !policy.isFull(file.head))
            #expect(try file.maintain(at: 1, policy).generationsMade == 0)
            try fixture.write(1)
        }
    }

    @Test func aRoundIsDueBeforeALogIsFull() throws {
        let fixture = try GenerationFixture(.memory), file = fixture.file
        var policy = HistoryPolicy()
        policy.logBytesMax = 8 * file.head.logBytes
        try file.maintain(at: 1, policy)
        let start = file.head.cumulativeSize
        #expect(!file.isMaintenanceDue(policy))
        while file.head.cumulativeSize - start < policy.worthwhileBytes {
            #expect(!file.isMaintenanceDue(policy))
            try fixture.write(1)
        }
        #expect(file.isMaintenanceDue(policy) && !policy.isLong(file.head))
        file.putOffMaintenance()
        file.requestTrim()
        #expect(file.isMaintenanceDue(policy))
        try file.maintain(at: 1, policy)
        #expect(!file.isMaintenanceDue(policy))
    }

    @Test func itIsSaidWhoKeepsTheLogWithoutAClientFile() throws {
        let fixture = try GenerationFixture(.memory), file = fixture.file
        let idents = try (0..<2).map { _ in try file.allocateIdent().ident }
        for (version, ident) in zip([3, 7] as [ServerVersion], idents) {
            try file.change(ident) {
                ($0.lineage, $0.uploadCursor.serverVersion, $0.lockedVersion) = (.log, version, version)
            }
        }
        #expect(try file.lowestPin(afterExpiring: idents[1])?.version == 3)
        #expect(try file.lowestPin(afterExpiring: idents[0])?.ident == idents[1])
        #expect(try file.expire(idents[0]))
        #expect(try !file.expire(idents[0]))
        #expect(try file.lowestPin(afterExpiring: idents[1]) == nil)
    }
}
