import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// The objects of a flexible file by value (`Spec/FlexibleSync.md`, section 3.4).
@Suite struct ObjectIndexTests {
    /// A query for a value finds its objects by an index of all values, as long as these are not too long.
    @Test(arguments: StoreKind.allCases) func longValuesAreNotIndexed(_ kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        let file = fixture.file
        file.objects.bytesMax = 5_000
        for key in 0..<3 as Range<Int64> { try fixture.create(key, bytes: 1_000) }
        func ask(_ version: UInt64, _ predicate: String) throws {
            let set = SubscriptionSet(
                version: QueryVersion(rawValue: version), query: Array(#"{"Note":"\#(predicate)"}"#.utf8))
            #expect(try file.query(set, in: &fixture.session) == nil)
            try fixture.integrate()
        }
        // From one value to another.
        try ask(2, "text == 'b'")
        try ask(3, "text == 'd'")
        #expect((3_000...5_000).contains(file.objects.byteCount))
        for key in 3..<6 as Range<Int64> { try fixture.create(key, bytes: 1_000) }
        #expect(file.objects.byteCount == 0)
        try file.write(at: 100) { _ = try $0.create("Note", key: .int(10), ["text": .string([0x64])]) }
        try fixture.integrate()
        #expect(try fixture.objectCount() == 1)
        try ask(4, "text == 'c'")
        #expect(try fixture.objectCount() == 0)
        try ask(5, "text == 'd'")
        #expect(try fixture.objectCount() == 1)
        #expect(file.objects.byteCount == 0)
        try fixture.upload()
        try fixture.test.verify()
    }

    /// The index of a property is made in steps, and has what others write between them.
    @Test(arguments: StoreKind.allCases) func anIndexIsMadeInSteps(_ kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        let file = fixture.file
        for key in 0..<10 as Range<Int64> { try fixture.create(key) }
        var (client, session) = try FlexibleFixture.join(fixture.synced, file)
        func set(_ version: QueryVersion, _ text: String) -> SubscriptionSet {
            SubscriptionSet(version: version, query: Array(#"{"Note":"text == '\#(text)'"}"#.utf8))
        }
        func keys() throws -> [Int64] {
            while let message = try file.download(for: &session) { try client.integrate(message.download) }
            return try client.state.read { transaction in
                try (-1..<30).filter { try transaction.object("Note", key: .int($0)) != nil }
            }
        }
        #expect(try file.beginQuery(set(1, "a"), in: session, until: .none))
        for _ in 0..<5 { #expect(try file.advanceSearch(in: &session, until: .smallest) == nil) }
        let begun = file.objects.byteCount
        // Objects that it has, and others, are changed, erased and made.
        try file.write(at: 100) { transaction in
            for key in [1, 7] as [Int64] {
                try transaction.object("Note", key: .int(key))?.set("text", to: .string([0x62]))
            }
            for key in [2, 8] as [Int64] {
                if let note = try transaction.object("Note", key: .int(key)) { try transaction.delete(note) }
            }
            for key in [-1, 20] as [Int64] {
                _ = try transaction.create("Note", key: .int(key), ["text": .string([0x61])])
            }
        }
        while file.isSearching(for: session.ident) { _ = try file.advanceSearch(in: &session, until: .smallest) }
        #expect(0 < begun && begun < file.objects.byteCount)
        let found: [Int64] = [-1, 0, 3, 4, 5, 6, 9, 20]
        #expect(try keys() == found)
        // What it has now decides alone.
        for (version, text, expected) in [(2, "b", [1, 7]), (3, "a", found)] as [(QueryVersion, String, [Int64])] {
            #expect(try file.query(set(version, text), in: &session) == nil)
            #expect(try keys() == expected)
        }
        try fixture.test.verify()
    }
}
