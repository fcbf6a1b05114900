import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// The promises of `HistoryStore` about the records of doors, for every store.
@Suite struct RecordConformanceTests {
    private static func place(_ key: [UInt8], kind: UInt8 = 1, space: UInt16 = 3) -> RecordPlace {
        RecordPlace(space: space, kind: kind, key: key)
    }

    /// Promise 14, but for crashes: a commit writes them in the transaction of its entries.
    @Test(arguments: StoreKind.withPostgres) func recordsAreThereExactlyIfTheirCommitIs(kind: StoreKind) throws {
        let test = try TestStore(kind)
        var fixture = try StoreConformanceTests.Fixture(test)
        try fixture.commit { commit in
            commit.entries = [StoreConformanceTests.entry(1, origin: 0, [], total: 0)]
            commit.records = [[], [0], [0, 0], [1], [255], [255, 255]].map {
                RecordChange(place: Self.place($0), value: $0 + [7], expiresAt: $0 == [1] ? 50 : 0)
            }
            commit.records.append(RecordChange(place: Self.place([1], kind: 2), value: []))
            commit.records.append(RecordChange(place: Self.place([1], space: .max), value: [9]))
        }
        try fixture.commit { commit in
            commit.records = [
                RecordChange(place: Self.place([0]), value: nil), RecordChange(place: Self.place([255]), value: [8]),
            ]
        }
        let stale = FileHead()
        var late = Commit(file: fixture.file.id, lease: fixture.file.lease, head: stale)
        late.records = [RecordChange(place: Self.place([4]), value: [4])]
        #expect(throws: HistoryError.self) { try fixture.store.commit([late]) }
        // The same key in another file is another record.
        var other = try StoreConformanceTests.Fixture(test, path: "/b")
        try other.commit { $0.records = [RecordChange(place: Self.place([0]), value: [1])] }
        for _ in 0..<2 {
            let store = test.store, file = try store.open(VirtualPath("/a")).id
            let found = try store.read(file) { view throws(HistoryError) in
                let all = RecordRange(space: 3, kind: 1)
                func keys(
                    _ range: RecordRange, _ count: Int = 9, _ isReversed: Bool = false
                ) throws(HistoryError) -> [[UInt8]] {
                    try view.records(in: range, countMax: count, isReversed: isReversed).map { $0.place.key }
                }
                #expect(try keys(all) == [[], [0, 0], [1], [255], [255, 255]])
                #expect(try keys(all, 2) == [[], [0, 0]])
                #expect(try keys(all, 0) == [])
                #expect(try keys(all, 2, true) == [[255, 255], [255]])
                #expect(try keys(RecordRange(space: 3, kind: 1, from: [0], to: [255])) == [[0, 0], [1]])
                #expect(try keys(RecordRange(space: 3, kind: 1, prefix: [255])) == [[255], [255, 255]])
                #expect(try keys(RecordRange(space: 3, kind: 1, prefix: [0])) == [[0, 0]])
                #expect(try keys(RecordRange(space: .max, kind: 1)) == [[1]])
                #expect(try view.record(at: Self.place([0])) == nil)
                #expect(try view.record(at: Self.place([1], kind: 2))?.value == [])
                #expect(try view.record(at: Self.place([1]))?.expiresAt == 50)
                return try view.record(at: Self.place([255]))?.value
            }
            #expect(found == [8])
            try test.restart()
        }
        try test.verify()
    }

    @Test(arguments: StoreKind.withPostgres) func recordsGoWhenTheyHaveExpiredAndWithTheirFile(kind: StoreKind) throws {
        let test = try TestStore(kind)
        var fixture = try StoreConformanceTests.Fixture(test)
        try fixture.commit { commit in
            commit.records = [0, 50, 51].map {
                RecordChange(place: Self.place([UInt8($0)]), value: [1], expiresAt: UInt64($0))
            }
        }
        func keys() throws -> [[UInt8]] {
            let file = try test.store.open(VirtualPath("/a")).id
            return try test.store.read(file) { view throws(HistoryError) in
                try view.records(in: RecordRange(space: 3, kind: 1), countMax: 9, isReversed: false).map(\.place.key)
            }
        }
        try test.store.maintain(at: 49)
        #expect(try keys() == [[0], [50], [51]])
        try test.store.maintain(at: 50)
        #expect(try keys() == [[0], [51]])
        let lease = try test.store.open(VirtualPath("/a")).lease
        var deletion = Commit(file: fixture.file.id, lease: lease, head: fixture.head)
        deletion.deletesFile = true
        try test.store.commit([deletion])
        #expect(try keys().isEmpty)
        #expect(try test.store.freeDeleted { true })
        #expect(try keys().isEmpty)
    }
}
