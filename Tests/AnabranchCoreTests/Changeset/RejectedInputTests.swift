import Testing

@testable import AnabranchCore

/// Every rule of `Spec/Changeset.md`, section 11, with the byte at which it is violated, and the examples of section
/// 13.
@Suite struct RejectedInputTests {
    struct Input: CustomTestStringConvertible, Sendable {
        var hex: String
        var rule: ChangesetError.Rule
        var offset: Int
        var testDescription: String { "\(hex) \(rule)" }

        init(_ hex: String, _ rule: ChangesetError.Rule, at offset: Int) {
            self.hex = hex
            self.rule = rule
            self.offset = offset
        }
    }

    @Test(arguments: chapterExamples + reference + strict)
    func inputIsRejectedByItsRule(_ input: Input) {
        var arena = ChangesetArena()
        let error = #expect(throws: ChangesetError.self) {
            try arena.decode(Hex.bytes(input.hex), version: 1, tag: OriginTag(timestamp: 0, ident: 0))
        }
        #expect(error?.rule == input.rule)
        #expect(error?.offset == input.offset, "\(error?.description ?? "")")
        #expect(arena.count == 0)
    }

    @Test func errorNamesPlaceReasonAndRule() {
        var arena = ChangesetArena()
        let error = #expect(throws: ChangesetError.self) {
            try arena.decode([0x3E], version: 1, tag: OriginTag(timestamp: 0, ident: 0))
        }
        #expect(error?.description == "bad changeset at byte 0: unknown instruction 62 (R13)")
    }

    /// Strings 0 "A" and 1 "f": eight bytes before what is tested.
    private static let strings = "3f000141 3f010166 "
    /// An Update of A[1].f up to its value: 14 bytes with the strings.
    private static let update = strings + "04 00 0101 01 00 "

    static let chapterExamples = [
        Input("3e", .r13, at: 0),
        Input("40", .r1, at: 0),
        Input("41", .r13, at: 0),
        Input("3f", .r1, at: 1),
        Input("3f 01 01 41", .r4, at: 0),
        Input("3f 00 01", .r3, at: 2),
        Input("3f 00 f0 ff ff 07", .r9, at: 2),
        Input("3f 00 f0 ff ff 07 41 41", .r9, at: 2),
        Input("3f 00 01 41 3f 01 01 41", .r5, at: 4),
        Input("02 00", .r6, at: 1),
        Input("3f 00 01 41 02 00 02", .r10, at: 6),
        Input("3f 00 01 41 00 00 00 00 00 00", .r15, at: 8),
        Input("3f 00 01 41 00 00 03", .r14, at: 6),
        Input("3f 00 01 41 04 00 01 01 00 00 40 00 00 00", .r11, at: 10),
        Input("3f 00 01 41 0a 00 01 01 00 00 00", .r16, at: 10),
    ]

    static let reference = [
        // R1: integers that end early, are too long, too large, or −1.
        Input("80", .r1, at: 0),
        Input("8080808080 80808080 8000", .r1, at: 0),
        Input("80808080 80808080 8002", .r1, at: 0),
        Input("3f 8080808080 00", .r1, at: 1),
        Input("3f 80808080 10", .r1, at: 1),
        Input("3f 40", .r1, at: 1),
        Input("3f 8040", .r1, at: 1),
        Input("3f000141 00 00 8002", .r1, at: 6),
        Input("3f000141 00 00 808000", .r1, at: 6),
        Input(update + "01 80808080808080808001", .r1, at: 15),
        Input(update + "08 00 8080808008 00", .r1, at: 16),
        Input(update + "00", .r1, at: 15),
        // R2: coefficients that end early or are too long.
        Input(update + "08", .r2, at: 15),
        Input(update + "08 80", .r2, at: 15),
        Input(update + "08 8080808080808080808080808080808080", .r2, at: 15),
        Input(update + "08 808080808080808080808080808080808000 0000", .r2, at: 15),
        // R3: raw bytes that end early.
        Input(update + "03 02 41", .r3, at: 15),
        Input(update + "04 ffffffffffffffffff01", .r3, at: 15),
        Input(update + "06 000000", .r3, at: 15),
        Input(update + "07 00000000000000", .r3, at: 15),
        Input(update + "0a 0000000000000000 000000", .r3, at: 23),
        Input(update + "0b 0000000000000000 00000000000000", .r3, at: 23),
        Input("3f000141 02 00 0a 00", .r3, at: 7),
        // R4 and R5: string numbers out of turn, also a number used again; strings defined twice.
        Input("3f000141 3f000142", .r4, at: 4),
        Input("3f0000 3f0100", .r5, at: 3),
        // R6: names not defined, wherever one is read.
        Input("3f000141 01 01", .r6, at: 5),
        Input("3f000141 07 00 01", .r6, at: 6),
        Input("3f000141 00 00 00 01", .r6, at: 7),
        Input("3f000141 02 00 03 01", .r6, at: 7),
        Input(strings + "04 00 0101 01 01 40 02", .r6, at: 15),
        Input(update + "09 02", .r6, at: 15),
        Input(update + "09 00 03 02", .r6, at: 17),
        Input(strings + "06 00 01 09 00 00 02", .r6, at: 14),
        Input("3f000141 01 ffffffff0f", .r6, at: 5),
        // R7: unknown types, wherever one is read.
        Input(update + "0c", .r7, at: 14),
        Input(update + "46", .r7, at: 14),
        Input("3f000141 02 00 0c", .r7, at: 6),
        Input("3f000141 00 00 00 00 0c", .r7, at: 8),
        Input(strings + "06 00 01 0c", .r7, at: 11),
        Input(strings + "06 00 01 01 00 02 0c", .r7, at: 14),
        // R8: unknown collection types.
        Input(strings + "06 00 01 01 00 04", .r8, at: 13),
        Input(strings + "0b 00 0101 01 00 04", .r8, at: 14),
        // R9: String values; a Binary of that size is only too long for the input.
        Input(update + "03 f0ffff07", .r9, at: 15),
        Input(update + "04 f0ffff07", .r3, at: 15),
        // R10 and R11: types that are no keys, and the one that is no value.
        Input(update + "09 00 02 00", .r10, at: 16),
        Input(update + "09 00 41", .r10, at: 16),
        Input(strings + "0c 00 0101 01 00 40", .r11, at: 14),
        // R12: nanoseconds of more than 31 bits.
        Input(update + "05 00 8080808008 00", .r12, at: 15),
        // R13: unknown instructions.
        Input("0e", .r13, at: 0),
        Input("ff03", .r13, at: 0),
        // R14 and R15: table types and primary key types.
        Input("3f000141 00 00 ff01", .r14, at: 6),
        Input("3f000141 00 00 02 00 02", .r15, at: 8),
        Input("3f000141 00 00 00 00 09", .r15, at: 8),
        // R16: list instructions without an index, before the value is read.
        Input(strings + "08 00 0101 01 00 40", .r16, at: 14),
        Input(strings + "08 00 0101 01 01 4000 40", .r16, at: 16),
        Input(strings + "09 00 0101 01 00", .r16, at: 14),
        Input(strings + "0a 00 0101 01 02 00 4001", .r16, at: 17),
        // Counts that promise more than there is.
        Input(strings + "04 00 0101 01 ffffffff0f", .r1, at: 18),
        Input(strings + "04 00 0101 01 ffffffff0f 0000", .r1, at: 20),
    ]

    static let strict = [
        Input(update + "05 00 8094ebdc03 00", .s1, at: 15),
        Input(update + "05 01 41 00", .s1, at: 15),
        Input(update + "05 41 01 00", .s1, at: 15),
        Input(update + "05 00 8080808048 00", .s2, at: 15),
        Input(strings + "06 00 01 40 00 00", .s3, at: 11),
        Input(strings + "06 00 01 41 01 00", .s3, at: 11),
        Input(strings + "06 00 01 45 01 01", .s3, at: 11),
        Input(strings + "04 00 0101 01 01 8080808010 00 00", .s4, at: 14),
        Input(update + "8102 00 00", .s5, at: 14),
        Input("3f000141 8204 00 00", .s5, at: 4),
        Input(update + "08 8080808080808080808080808080808002 00 00", .s6, at: 15),
        Input(update + "08 00 e0cf00 00", .s6, at: 15),
        Input(update + "08 00 a070 00", .s6, at: 15),
        Input("3f000141 01 41", .s7, at: 5),
        Input("3f000141 00 00 41", .s7, at: 6),
        // The opcode −250 is 5 in a byte.
        Input("3f000141 f941 00", .s7, at: 4),
        Input(strings + "06 00 01 00 00 00", .s8, at: 11),
        Input(strings + "06 00 01 00 00 01", .s8, at: 11),
    ]

    @Test func everyRuleThatCanBeViolatedIsTested() {
        let tested = Set((Self.chapterExamples + Self.reference + Self.strict).map(\.rule))
        // R17 needs a size type of fewer than 64 bits, tooLarge an arena of 4 GiB.
        #expect(Set(ChangesetError.Rule.allCases).subtracting(tested) == [.r17, .tooLarge])
    }
}
