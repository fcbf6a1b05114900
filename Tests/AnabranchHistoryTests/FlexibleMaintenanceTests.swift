import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// The entries that flexible files forget, and which of their client files expire (`Spec/FlexibleSync.md`, section
/// 3.5).
@Suite struct FlexibleMaintenanceTests {
    private static let day: UInt64 = 86_400

    @Test(arguments: StoreKind.allCases) func whoConfirmsNothingExpires(kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        try fixture.upload()
        var session = fixture.session
        #expect {
            for key in 0..<70 {
                try fixture.create(Int64(key), bytes: 1 << 20)
                while try fixture.file.download(for: &session) != nil {}
            }
        } throws: {
            ($0 as? HistoryError)?.code == .clientFileExpired
        }
        #expect(try fixture.synced.clientFile(fixture.client.ident)?.isExpired == true)
        let store = try #require(fixture.test.store as? any ViewStore)
        #expect(try store.views(of: fixture.synced.id).isEmpty)
        try fixture.restart()
        #expect { try fixture.identify() } throws: { ($0 as? HistoryError)?.code == .clientFileExpired }
        try fixture.test.verify()
    }

    @Test func aLongBootstrapIsNoReasonToExpire() throws {
        var fixture = try FlexibleFixture(.memory)
        for key in 0..<18 {
            try fixture.create(Int64(key), bytes: 1 << 20)
            try fixture.integrate()
            try fixture.upload()
        }
        var (other, session) = try FlexibleFixture.join(fixture.synced, fixture.file)
        #expect(try fixture.file.query(FlexibleFixture.all, in: &session) == nil)
        try fixture.create(100)
        while let message = try fixture.file.download(for: &session) { try other.integrate(message.download) }
        #expect(try other.state.read { try $0.objects("Note").count } == 19)
    }

    @Test(arguments: StoreKind.allCases) func whatNobodyNeedsGoes(kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind), policy = HistoryPolicy()
        policy.sealEntries = 4
        policy.generationBytes = 0
        for key in 0..<20 { try fixture.create(Int64(key)) }
        // What the client has not confirmed it may need.
        let kept = try fixture.synced.maintain(at: 1, policy)
        #expect(kept.generationsMade == 0)
        #expect(fixture.synced.head.baseVersion < 3)
        try fixture.integrate()
        try fixture.upload()
        let report = try fixture.synced.maintain(at: 1, policy)
        #expect(report.generationsMade == 0 && report.trimmedEntries >= 16)
        #expect(fixture.synced.head.baseVersion >= 20)

        // The log begins after what it is sent at first, and it has lost that.
        var (other, session) = try FlexibleFixture.join(fixture.synced, fixture.file)
        #expect(try fixture.file.download(for: &session) != nil)
        for key in 20..<30 { try fixture.create(Int64(key)) }
        try fixture.integrate()
        try fixture.upload()
        #expect(try fixture.synced.maintain(at: 1, policy).trimmedEntries < 10)
        try fixture.restart()
        session = try fixture.file.identify(other.identRequest)
        #expect(try fixture.file.query(FlexibleFixture.all, in: &session) == nil)
        while let message = try fixture.file.download(for: &session) { try other.integrate(message.download) }
        #expect(try other.state.read { try $0.objects("Note").count } == 30)

        try fixture.identify()
        try fixture.create(30)
        try fixture.integrate()
        #expect(try fixture.objectCount() == 31)
        try fixture.test.verify()
    }

    /// A view is not stored anew when its client confirms: it may name entries that the log has forgotten.
    @Test func whatIsConfirmedMayBeNamed() throws {
        var fixture = try FlexibleFixture(.sqlite), policy = HistoryPolicy()
        policy.sealEntries = 4
        policy.generationBytes = 0
        for key in 0..<20 { try fixture.create(Int64(key)) }
        try fixture.integrate()
        let none = SubscriptionSet(version: 2, query: Array("{}".utf8))
        #expect(try fixture.file.query(none, in: &fixture.session) == nil)
        try fixture.integrate()
        try fixture.upload()
        #expect(try fixture.synced.maintain(at: 1, policy).trimmedEntries >= 16)
        let stored = try #require(try fixture.file.store.view(of: fixture.synced.id, fixture.client.ident))
        #expect(stored.record.logged.contains { $0.version <= fixture.synced.head.baseVersion })
        try fixture.test.verify()
    }

    @Test func whoWasAwayForLongExpires() throws {
        var fixture = try FlexibleFixture(.sqlite)
        try fixture.upload()
        let (other, _) = try FlexibleFixture.join(fixture.synced, fixture.file)
        try fixture.create(1)
        try fixture.restart()
        // It has confirmed nothing.
        let week = try fixture.synced.maintain(at: 8 * Self.day, HistoryPolicy())
        #expect(week.expired.map(\.ident) == [other.ident] && week.expired.map(\.reason) == [.bootstrap])
        let months = try fixture.synced.maintain(at: 61 * Self.day, HistoryPolicy())
        #expect(months.expired.map(\.ident) == [fixture.client.ident] && months.expired.map(\.reason) == [.offline])
        fixture.file.forgetViews(of: months.expired.map(\.ident))
        let store = try #require(fixture.test.store as? any ViewStore)
        #expect(try store.views(of: fixture.synced.id).isEmpty)
        #expect { try fixture.identify() } throws: { ($0 as? HistoryError)?.code == .clientFileExpired }
    }
}
