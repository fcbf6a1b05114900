import AnabranchCore
import AnabranchHistory
import AnabranchSimulation
import AnabranchTesting
import Testing

/// What a flexible file does step by step (`Spec/FlexibleSync.md`, section 3).
@Suite struct FlexibleFileTests {
    /// Nobody asks for the bootstrap of set 0 again, whatever came after it.
    @Test func theFirstBootstrapIsSentUntilItHasArrived() throws {
        let synced = try SyncedFile(path: VirtualPath("flexible"), store: InMemoryStore())
        try synced.write(at: 1) { try $0.addClass("Dog", key: "_id", .int) }
        let file = try FlexibleFile(synced)
        let request = IdentRequest(
            file: try synced.allocateIdents(for: [nil], at: 1)[0], download: DownloadCursor(), latest: SaltedVersion(),
            subscriptions: SubscriptionSet.none)
        var lost = try file.identify(request)
        let set = SubscriptionSet(version: 1, query: Array(#"{"Dog":"TRUEPREDICATE"}"#.utf8))
        #expect(try file.query(set, in: &lost) == nil)
        while try file.download(for: &lost) != nil {}

        var session = try file.identify(request)
        let first = try #require(try file.download(for: &session))
        #expect(first.isBootstrap && first.queryVersion == 0)
        let second = try #require(try file.download(for: &session))
        #expect(!second.isBootstrap && second.queryVersion == 0)
        // Now the client asks for set 1 again, and gets it.
        #expect(try file.query(set, in: &session) == nil)
        let third = try #require(try file.download(for: &session))
        #expect(third.isBootstrap && third.queryVersion == 1)
    }

    /// More of them: `anabranch-lab fuzz flexible`; and `anabranch-lab check vectors`, with the scenarios that the
    /// reference has recorded.
    @Test(arguments: 0..<300 as Range<UInt64>)
    func whoSeesEverythingHasPartitionBasedSync(seed: UInt64) throws {
        try FullViewRun.run(seed: seed, steps: 60)
    }
}
