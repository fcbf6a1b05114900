import AnabranchCore
import AnabranchHistory
import Testing

/// The promises of `HistoryCatalog`, for every store.
@Suite struct CatalogTests {
    private static func fill(_ store: any HistoryStore) throws {
        for (path, count) in [([1], 0), ([1, 0], 3), ([0xff], 1), ([0], 0)] as [([UInt8], Int)] {
            let opened = try store.open(VirtualPath(path))
            var commit = Commit(file: opened.id, lease: opened.lease, head: opened.head)
            commit.clientFiles = (0..<count).map {
                ClientFile(ident: ClientFileID($0 + 2), salt: 5, lastSeen: 7, user: "ann")
            }
            commit.entries = (0..<count).map { index in
                LogEntry(
                    version: ServerVersion(index + 1), salt: 3, origin: 2, clientVersion: ClientVersion(index + 4),
                    timestamp: .largest, cumulativeSize: UInt64(index + 1),
                    changeset: [UInt8](repeating: 0, count: index))
            }
            try store.commit([commit])
        }
    }

    @Test(arguments: StoreKind.withPostgres) func filesAreListedInTheOrderOfTheirBytes(kind: StoreKind) throws {
        let test = try TestStore(kind)
        try Self.fill(test.store)
        let catalog = try #require(test.store as? any HistoryCatalog)
        let all = try catalog.files(after: nil, countMax: 10)
        #expect(all.map(\.path.bytes) == [[0], [1], [1, 0], [0xff]])
        #expect(all.map(\.head.clientFileCount) == [0, 0, 3, 1])
        #expect(try catalog.files(after: VirtualPath([1]), countMax: 1) == [all[2]])
        #expect(try catalog.files(after: VirtualPath([0, 1]), countMax: 9) == Array(all[1...]))
        #expect(try catalog.files(after: VirtualPath([0xff]), countMax: 9).isEmpty)
        #expect(try catalog.files(after: nil, countMax: 0).isEmpty)
        #expect(try catalog.file(VirtualPath([1, 0])) == all[2])
        #expect(try catalog.file(VirtualPath([1, 0]))?.head == test.store.open(VirtualPath([1, 0])).head)
    }

    @Test(arguments: StoreKind.withPostgres) func whatAFileHoldsIsListedFromAnywhere(kind: StoreKind) throws {
        let test = try TestStore(kind)
        try Self.fill(test.store)
        let catalog = try #require(test.store as? any HistoryCatalog)
        let path = VirtualPath([1, 0])
        #expect(try catalog.clientFiles(of: path, after: 0, countMax: 9).map(\.ident) == [2, 3, 4])
        #expect(try catalog.clientFiles(of: path, after: 2, countMax: 1).map(\.ident) == [3])
        #expect(try catalog.clientFiles(of: path, after: .largest, countMax: 9).isEmpty)
        #expect(try catalog.clientFiles(of: path, after: 0, countMax: 1).first?.user == "ann")
        let entries = try catalog.entries(of: path, after: 0, countMax: 9)
        #expect(entries.map(\.version) == [1, 2, 3])
        #expect(
            entries[2] == CatalogEntry(version: 3, origin: 2, clientVersion: 6, timestamp: .largest, changesetBytes: 2))
        #expect(try catalog.entries(of: path, after: 1, countMax: 1) == [entries[1]])
        #expect(try catalog.entries(of: path, after: .largest, countMax: 9).isEmpty)
    }

    @Test(arguments: StoreKind.withPostgres) func whatRecordsTakeIsAddedUp(kind: StoreKind) throws {
        let test = try TestStore(kind), paths = [VirtualPath("a"), VirtualPath("b")]
        let catalog = try #require(test.store as? any HistoryCatalog)
        #expect(try catalog.recordTotals(of: nil).isEmpty)
        for (index, path) in paths.enumerated() {
            let opened = try test.store.open(path)
            var commit = Commit(file: opened.id, lease: opened.lease, head: opened.head)
            let kinds: [(UInt16, UInt8, Int)] = [(1, 1, 2), (1, 2, 300), (700, 1, 1)]
            commit.records = kinds.prefix(3 - index).flatMap { space, kind, count in
                (0..<count).map { number in
                    RecordChange(
                        place: RecordPlace(space: space, kind: kind, key: [UInt8(number / 256), UInt8(number % 256)]),
                        value: [1, 2, 3])
                }
            }
            try test.store.commit([commit])
        }
        func total(_ space: UInt16, _ kind: UInt8, _ files: Int, _ records: Int) -> RecordTotal {
            RecordTotal(
                space: space, kind: kind, fileCount: files, recordCount: records, byteCount: UInt64(5 * records))
        }
        #expect(try catalog.recordTotals(of: nil) == [total(1, 1, 2, 4), total(1, 2, 2, 600), total(700, 1, 1, 1)])
        #expect(try catalog.recordTotals(of: paths[1]) == [total(1, 1, 1, 2), total(1, 2, 1, 300)])
        #expect(try catalog.recordTotals(of: VirtualPath("c")).isEmpty)
    }

    @Test(arguments: StoreKind.withPostgres) func lookingMakesNoFile(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let catalog = try #require(test.store as? any HistoryCatalog)
        let path = VirtualPath("nothing")
        #expect(try catalog.file(path) == nil)
        #expect(try catalog.clientFiles(of: path, after: 0, countMax: 9).isEmpty)
        #expect(try catalog.entries(of: path, after: 0, countMax: 9).isEmpty)
        #expect(try catalog.files(after: nil, countMax: 9).isEmpty)
    }

    @Test func aPathIsReadBackFromItsWord() {
        for bytes: [UInt8] in [[], Array("demo/\"notes\"".utf8), Array(0...255), Array("%41".utf8)] {
            let path = VirtualPath(bytes)
            #expect(VirtualPath(description: path.description) == path)
        }
        #expect(VirtualPath(description: "a b%2F%2f")?.bytes == Array("a b//".utf8))
        for word in ["%", "%4", "%zz", "%4g", "a%"] { #expect(VirtualPath(description: word) == nil) }
    }
}
