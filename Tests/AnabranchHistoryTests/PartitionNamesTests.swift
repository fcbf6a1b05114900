import AnabranchCore
import AnabranchHistory
import Testing

/// Files that older versions have named by other spellings of their partitions' values.
@Suite struct PartitionNamesTests {
    private static func names(_ kind: StoreKind, _ paths: String...) throws -> (PartitionNames, TestStore) {
        let test = try TestStore(kind)
        for path in paths {
            _ = try SyncedFile(path: VirtualPath(path), store: test.store).allocateIdents(for: [nil], at: 1)
        }
        return (try PartitionNames(of: try #require(test.store as? any HistoryCatalog)), test)
    }

    private static let all = ["a/42", "a/42.0", #"a/{"$numberInt":"42"}"#, #"a/{ "$numberLong" : "42" }"#].map {
        VirtualPath($0)
    }
    private static let canonical = VirtualPath(app: "a", partition: 42)

    @Test(arguments: StoreKind.allCases) func theOnlyFileOfAValueIsFoundByEachSpelling(kind: StoreKind) throws {
        let (names, _) = try Self.names(kind, #"a/{ "$numberLong" : "42" }"#, "a/43", "b", "/plain")
        for path in Self.all + [Self.canonical] { #expect(names.file(at: path) == Self.all[3]) }
        #expect(names.file(at: VirtualPath(app: "a", partition: 43)) == VirtualPath("a/43"))
        #expect(names.file(at: VirtualPath("a/44")) == VirtualPath(app: "a", partition: 44))
        #expect(names.file(at: VirtualPath("b/42")) == VirtualPath(app: "b", partition: 42))
        #expect(names.file(at: VirtualPath("/plain")) == VirtualPath("/plain"))
        #expect(names.file(at: VirtualPath("b")) == VirtualPath("b"))
        #expect(names.duplicates.isEmpty)
    }

    @Test(arguments: StoreKind.allCases) func severalFilesOfAValueKeepTheirSpellings(kind: StoreKind) throws {
        let (names, _) = try Self.names(kind, "a/42", #"a/{"$numberInt":"42"}"#, #"a/{"$numberLong":"42"}"#)
        #expect(names.duplicates == [[Self.canonical, Self.all[0], Self.all[2]]])
        for path in [Self.canonical, Self.all[0], Self.all[2]] { #expect(names.file(at: path) == path) }
        for path in [Self.all[1], Self.all[3]] { #expect(names.file(at: path) == Self.canonical) }
    }

    @Test func aFileThatIsGoneIsNotFound() throws {
        var (names, _) = try Self.names(.memory, "a/42", #"a/{"$numberInt":"42"}"#)
        #expect(names.duplicates.map(\.count) == [2])
        names.remove(VirtualPath("a/42"))
        #expect(names.duplicates.isEmpty && names.file(at: Self.all[0]) == Self.all[2])
        names.remove(Self.all[2])
        #expect(names.file(at: Self.all[0]) == Self.canonical)
    }
}
