import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// How large the objects of a file can grow (`Spec/State.md`, B11).
@Suite struct ObjectLimitTests {
    /// A value beyond the limit is refused with its place, whether a client or the server writes it.
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

    /// Its author cannot help it, and would meet it again after a reset.
    @Test(arguments: StoreKind.allCases) func anObjectThatOnlyTheMergeMakesTooLargeIsNoReasonToReset(
        kind: StoreKind
    ) throws {
        let fixture = try StateTests.Fixture(kind)
        let file = try SyncedFile(path: fixture.file.path, store: fixture.test.store, objectBytesMax: 50)
        let append = { (object: Int64, count: Int) in
            try fixture.changeset { tx in
                let list = try (tx.object("T", key: .int(object)) ?? tx.create("T", key: .int(object))).list("l")
                for _ in 0..<count { try list.append(8) }
            }
        }
        #expect(try file.integrate(Upload([try append(1, 2)], from: 5, base: 1), from: 3) == nil)
        let merged = try file.integrate(Upload([try append(1, 2)], from: 5, base: 1), from: 4)
        #expect(merged?.code == .tooLarge)
        #expect(merged?.reason.hasPrefix("changeset 5 cannot be applied: T[1].l: the object would have") == true)
        // Others have changed the file, not the object.
        #expect(try file.integrate(Upload([try append(2, 20)], from: 5, base: 1), from: 4)?.code == .badChangeset)
        #expect(file.version == 2)
    }
}
