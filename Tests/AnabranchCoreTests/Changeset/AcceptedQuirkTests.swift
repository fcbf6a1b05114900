import Testing

@testable import AnabranchCore

/// Input that no encoder writes and every decoder accepts: it is encoded in the one proper form.
@Suite struct AcceptedQuirkTests {
    @Test(arguments: [
        // Overlong integers: opcode, string number, length, name, key, path count, index, value, prior size.
        ("8100 00", "01 00"),
        ("01 8000", "01 00"),
        ("02 00 01 8100", "02 00 0101"),
        ("02 00 01 c040", "02 00 01 c040"),
        ("02 00 01 8040", "02 00 01 40"),
        ("02 00 8100 01", "02 00 0101"),
        ("08 00 0101 00 8100 8200 01 8300 80808000", "08 00 0101 00 01 02 01 03 00"),
        // Booleans other than 0 and 1.
        ("04 00 0101 00 00 00 02", "04 00 0101 00 00 00 01"),
        ("04 00 0101 00 00 02 ff01 8000", "04 00 0101 00 00 02 01 00"),
        // Negative numbers other than −1 before a name in a path.
        ("05 00 0101 00 01 4500 01", "05 00 0101 00 01 4000 01"),
        ("05 00 0101 00 01 ffffffffffffffffff4000 01", "05 00 0101 00 01 4000 01"),
        // Coefficients with bit 6 in the last byte, or overlong; signs other than 0 and 1.
        ("04 00 0101 00 00 08 40 00 00 00", "04 00 0101 00 00 08 c000 00 00 00"),
        ("04 00 0101 00 00 08 8000 00 00 00", "04 00 0101 00 00 08 00 00 00 00"),
        ("04 00 0101 00 00 08 01 00 45 00", "04 00 0101 00 00 08 01 00 01 00"),
    ])
    func quirkIsEncodedProperly(_ quirk: String, _ proper: String) throws {
        let definitions = "3f000141 "
        var arena = ChangesetArena()
        let changeset = try arena.decode(
            Hex.bytes(definitions + quirk), version: 1, tag: OriginTag(timestamp: 0, ident: 0))
        #expect(Hex.encode(arena.encoded(changeset)) == Hex.encode(Hex.bytes(definitions + proper)))
        let isProper = Hex.bytes(quirk) == Hex.bytes(proper)
        #expect(arena[changeset].isCanonical == isProper)
    }

    @Test func overlongDefinitionsOfStringsAreEncodedProperly() throws {
        var arena = ChangesetArena()
        let changeset = try arena.decode(
            Hex.bytes("bf00 8000 8100 41 01 00"), version: 1, tag: OriginTag(timestamp: 0, ident: 0))
        #expect(Hex.encode(arena.encoded(changeset)) == "3f0001410100")
    }

    @Test func decimalsWithMoreThan34DigitsSurvive() throws {
        // 113 bits, all set.
        let hex = "3f000141 04 00 0101 00 00 08 ffffffffffffffffffffffffffffffff01 00 00 00"
        var arena = ChangesetArena()
        let changeset = try arena.decode(Hex.bytes(hex), version: 1, tag: OriginTag(timestamp: 0, ident: 0))
        #expect(arena.encodedAnew(changeset) == Hex.bytes(hex))
        #expect(arena.lines(of: changeset) == ["Update A[1].A = Decimal +10384593717069655257060992658440191E+0"])
    }
}
