import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// How large the objects of a file can grow (`Spec/State.md`, B11).
@Suite struct ObjectLimitTests {
    /// What is beyond the limit is refused with its place, whether a client or the server writes it.
    @Test(arguments: StoreKind.allCases) func anObjectGrowsUpToTheLimit(kind: StoreKind) throws {
        for (limit, isTaken) in [(39, false), (40, true), (41, true)] {
            let fixture = try StateTests.Fixture(kind)
            let file = try SyncedFile(path: fixture.file.path, store: fixture.test.store, objectBytesMax: limit)
            let append = { (tx: WriteTransaction) in try #require(try tx.object("T", key: 1)).list("l").append(8) }
            let reason = "T[1].l: the object would have 40 bytes, more than the \(limit) that it may have"
            let error = #expect(throws: (any Error).self) {
                try file.write(at: 1) { tx in
                    try append(tx)
                    throw HistoryError(.badChangeset, "taken")
                }
            }
            #expect((error as? ApplyError)?.description == (isTaken ? nil : reason))
            let refusal = try file.integrate(Upload([try fixture.changeset(append)], from: 5, base: 1), from: 3)
            #expect(refusal?.code == (isTaken ? nil : .badChangeset))
            #expect(refusal?.reason == (isTaken ? nil : "changeset 5 cannot be applied: \(reason)"))
            #expect(file.version == (isTaken ? 2 : 1))
        }
    }
}
