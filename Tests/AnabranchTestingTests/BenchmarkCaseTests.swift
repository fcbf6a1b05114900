import Testing

@testable import AnabranchTesting

/// The benchmark cases have the bytes of those that the reference was timed on.
@Suite struct BenchmarkCaseTests {
    /// FNV-1a digests of the lines, with newline, of the small cases by seed; other families have no random part.
    static let digests: [(name: String, seed: Int, digest: UInt64)] = [
        ("list-insert-1000", 0, 0xA2B9_40FE_1935_D1CD),
        ("list-ins-era-1000", 0, 0x6252_A12F_5E19_E317),
        ("list-ins-era-set-1000", 0, 0x98BB_5E3C_9B82_B6A2),
        ("list-move-1000", 0, 0x482A_1FEC_7EE9_619A),
        ("list-tx-1000x1000", 0, 0x7938_BAB2_D10B_E68C),
        ("list-hot-1000", 0, 0xD5A5_7869_7B5D_7447),
        ("list-gap-1000", 0, 0x1B23_5CA9_BF6F_F724),
        ("list-replace-1000", 0, 0xB5ED_E534_5D53_3D82),
        ("objects-independent-1000", 0, 0x2447_67C3_E1AB_76A4),
        ("objects-conflict-1000", 0, 0xE3B2_0D0F_3A2E_FEA4),
        ("objects-linked-1000", 0, 0x0C0F_4FF2_4E23_FE37),
        ("tx-independent-1000x1000", 0, 0x4D30_2F17_B2FC_B1D9),
        ("schema-erase-column-1000", 0, 0x5809_E749_9BAF_3794),
        ("schema-add-100", 0, 0x3E50_E813_900C_75AC),
        ("list-insert-1000", 7, 0x303B_B66A_5FC7_A6AC),
        ("list-ins-era-1000", 7, 0xC246_DE80_2EB3_4C5C),
        ("list-ins-era-set-1000", 7, 0x3394_A4AB_0786_1B6D),
        ("list-move-1000", 7, 0x2571_0C77_9AE8_BA04),
        ("list-tx-1000x1000", 7, 0x73F9_675E_0C3C_15E4),
    ]

    @Test(arguments: digests)
    func aCaseHasTheBytesOfTheReferenceGenerator(_ name: String, _ seed: Int, _ digest: UInt64) throws {
        let mergeCase = try #require(BenchmarkCase.all(seed: seed, large: false).first { $0.name == name })
        #expect(
            AnabranchTestingTests.digest(mergeCase.line()) == digest,
            "anabranch-lab bench cases - --seed \(seed) --only \(name)")
    }

    @Test func theFamiliesStandInTheirOrderAndLargeOnesAreAdded() {
        let ordinary = BenchmarkCase.all(seed: 0, large: false).map(\.name)
        #expect(ordinary.count == 38)
        #expect(ordinary.first == "list-insert-1000")
        #expect(ordinary.last == "schema-add-1600")
        let large = BenchmarkCase.all(seed: 0, large: true).map(\.name)
        #expect(large.filter { $0.contains("64000") }.count == 7)
        #expect(large.filter { $0.contains("256000") }.count == 3)
        #expect(large.filter { !$0.contains("64000") && !$0.contains("256000") } == ordinary)
    }
}
