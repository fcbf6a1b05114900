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
}
