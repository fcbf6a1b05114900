import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The worked examples of `Spec/Changeset.md`, section 13: what they say, and that they are what the encoder writes.
@Suite struct WorkedExamplesTests {
    struct Example: CustomTestStringConvertible, Sendable {
        var name: String
        var hex: String
        var lines: [String]
        var testDescription: String { name }

        init(_ name: String, _ hex: String, _ lines: String...) {
            self.name = name
            self.hex = hex
            self.lines = lines
        }
    }

    @Test(arguments: examples)
    func exampleSaysWhatTheChapterSays(_ example: Example) throws {
        var arena = ChangesetArena()
        let bytes = Hex.bytes(example.hex)
        let changeset = try arena.decode(bytes, version: 1, tag: OriginTag(timestamp: 0, ident: 0))
        #expect(arena.lines(of: changeset) == example.lines)
        #expect(arena.encoded(changeset) == bytes)
        #expect(arena.encodedAnew(changeset) == bytes)
        #expect(arena[changeset].isCanonical)
    }

    @Test func recordedTransactionIsEncodedStringsFirst() throws {
        let recorded = Hex.bytes(
            """
            3f000141 02000101 3f010169 040001010100010500 3f020173 0400010102000305 68656c6c6f 00
            02000102 3f03016c 04000102030009000101 00
            """)
        var arena = ChangesetArena()
        let changeset = try arena.decode(recorded, version: 1, tag: OriginTag(timestamp: 0, ident: 0))
        #expect(
            arena.text(of: changeset) == """
                strings: 0="A" 1="i" 2="s" 3="l"
                CreateObject A[1]
                Update A[1].i = Int 5
                Update A[1].s = String "hello"
                CreateObject A[2]
                Update A[2].l = Link A[1]

                """)
        #expect(
            arena.encoded(changeset)
                == Hex.bytes(
                    """
                    3f000141 3f010169 3f020173 3f03016c 02000101 040001010100010500 0400010102000305 68656c6c6f 00
                    02000102 04000102030009000101 00
                    """))
    }

    @Test func changesetsWithoutInstructionsAreEncodedAsNothing() throws {
        for hex in ["", "3f000141"] {
            var arena = ChangesetArena()
            let changeset = try arena.decode(Hex.bytes(hex), version: 1, tag: OriginTag(timestamp: 0, ident: 0))
            #expect(arena.isEmpty(changeset))
            #expect(!arena.isDirty(changeset))
            #expect(arena.encoded(changeset).isEmpty)
        }
    }

    @Test(arguments: StringOrder.allCases)
    func stepsOfAllKindsAreEncodedAsTheTestsWriteThem(_ order: StringOrder) throws {
        for seed in Seeds.upTo(200) {
            var random = RandomSteps(seed: seed)
            let steps = random.steps(20)
            var arena = ChangesetArena()
            let changeset = try arena.decode(
                AnabranchCoreTests.changeset(steps, strings: order), version: 1,
                tag: OriginTag(timestamp: 0, ident: 0))
            #expect(
                arena.encoded(changeset) == AnabranchCoreTests.changeset(steps),
                "\(Seeds.repeatCommand("stepsOfAllKindsAreEncodedAsTheTestsWriteThem", seed: seed))")
        }
    }

    static let examples = [
        Example("E1", "3f0001413f01035f6964000000010100", "AddTable A TopLevel, primary key _id Int"),
        Example("E2", "3f00044e6f506b3f0100000000014000", "AddTable NoPk TopLevel, primary key \"\" GlobalKey"),
        Example("E3", "3f000145000001", "AddTable E Embedded"),
        Example(
            "E4", "3f00044173796d3f01035f6964000002010a00", "AddTable Asym TopLevelAsymmetric, primary key _id ObjectId"
        ),
        Example("E5", "3f0001410100", "EraseTable A"),
        Example("E6", "3f0001413f0101693f0200060001010000", "AddColumn A.i Int"),
        Example("E7", "3f0001413f01026c6c3f02014206000109000102", "AddColumn A.ll Link to B, List"),
        Example("E8", "3f0001413f0102646d3f020006000100010203", "AddColumn A.dm Mixed nullable, Dictionary by String"),
        Example(
            "E9", "3f0001413f0102646c0600010901020003", "AddColumn A.dl Link to A nullable, Dictionary by String"),
        Example("E10", "3f0001413f010169070001", "EraseColumn A.i"),
        Example(
            "E11", "3f000141020001fb0002000140020000", "CreateObject A[123]", "CreateObject A[-1]",
            "CreateObject A[null]"),
        Example("E12", "3f0001533f01016202000301", "CreateObject S[\"b\"]"),
        Example(
            "E13",
            "3f00044e6f506b3f01014f3f020155020040fb000102010a000102030405060708090a0b02020b3b241101e2bb42558caf4136c566a962",
            "CreateObject NoPk[{007b-0001}]", "CreateObject O[ObjectId 000102030405060708090a0b]",
            "CreateObject U[UUID 3b241101-e2bb-4255-8caf-4136c566a962]"),
        Example("E14", "3f00014103000102", "EraseObject A[2]"),
        Example("E15", "3f0001413f010173040001010100030568656c6c6f00", "Update A[1].s = String \"hello\""),
        Example(
            "E16", "3f0001413f01016904000101010001ffffffffffffffffff4001",
            "Update A[1].i = Int -9223372036854775808 (default)"),
        Example("E17", "3f0001413f0101740400010101000540ffc1d76f00", "Update A[1].t = Timestamp -1.100000000 s"),
        Example("E18", "3f0001413f010163040001010100089a08410000", "Update A[1].c = Decimal 10.50"),
        Example(
            "E19", "3f0001413f01016304000101010008ffffffffbfcce3c6b7809feceab7c2f601000000",
            "Update A[1].c = Decimal +9999999999999999999999999999999999E+0"),
        Example(
            "E20", "3f0001413f010166040001010100060000c03f000400010101000700000000000004c000",
            "Update A[1].f = Float 1.5", "Update A[1].f = Double -2.5"),
        Example("E21", "3f0001413f01016c0400010101000900010200", "Update A[1].l = Link A[2]"),
        Example(
            "E22", "3f0001413f01026c69040001010101030107f403", "Update A[1].li[3] = Int 7 (prior size 500)"),
        Example(
            "E23", "3f0001413f0102646d3f020161040001010101400202010004000101010140024300",
            "Update A[1].dm[\"a\"] = Bool true", "Update A[1].dm[\"a\"] = Erased"),
        Example("E24", "3f0001413f01016905000101010042", "AddInteger A[1].i by -3"),
        Example("E25", "3f0001413f01026c6908000101010100010100", "ArrayInsert A[1].li[0] = Int 1 (prior size 0)"),
        Example(
            "E26", "3f0001413f01026c653f020178080001010101004100040001010102004002010100",
            "ArrayInsert A[1].le[0] = ObjectValue (prior size 0)", "Update A[1].le[0][\"x\"] = Int 1"),
        Example("E27", "3f0001413f01026c69090001010101000304", "ArrayMove A[1].li[0] to 3 (prior size 4)"),
        Example("E28", "3f0001413f01026c690a00010101010204", "ArrayErase A[1].li[2] (prior size 4)"),
        Example(
            "E29", "3f0001413f01026c693f0202646d3f0302736d0b0001010100010b0001010200020b000101030003",
            "Clear A[1].li List", "Clear A[1].dm Dictionary", "Clear A[1].sm Set"),
        Example(
            "E30", "3f0001413f0102736d0c00010101000301780d000101010000", "SetInsert A[1].sm String \"x\"",
            "SetErase A[1].sm Null"),
        Example(
            "E31", "3f0001413f01016d3f02016c040001010100420004000101010140024400080001010102400200010100",
            "Update A[1].m = Dictionary", "Update A[1].m[\"l\"] = List",
            "ArrayInsert A[1].m[\"l\"][0] = Int 1 (prior size 0)"),
        Example("E32", "3f0001413f010162040001010100040200ff00", "Update A[1].b = Binary x\"00ff\""),
    ]
}
