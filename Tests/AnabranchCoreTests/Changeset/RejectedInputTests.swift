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
        #expect(error?.description == "bad changeset at byte 0: unknown instruction 62 (X13)")
    }

    /// Strings 0 "A" and 1 "f": eight bytes before what is tested.
    private static let strings = "3f000141 3f010166 "
    /// An Update of A[1].f up to its value: 14 bytes with the strings.
    private static let update = strings + "04 00 0101 01 00 "

    static let chapterExamples = [
        Input("3e", .unknownInstruction, at: 0),
        Input("40", .malformedInteger, at: 0),
        Input("41", .unknownInstruction, at: 0),
        Input("3f", .malformedInteger, at: 1),
        Input("3f 01 01 41", .stringOutOfOrder, at: 0),
        Input("3f 00 01", .truncated, at: 2),
        Input("3f 00 f0 ff ff 07", .stringTooLong, at: 2),
        Input("3f 00 f0 ff ff 07 41 41", .stringTooLong, at: 2),
        Input("3f 00 01 41 3f 01 01 41", .duplicateString, at: 4),
        Input("02 00", .undefinedString, at: 1),
        Input("3f 00 01 41 02 00 02", .invalidObjectKeyType, at: 6),
        Input("3f 00 01 41 00 00 00 00 00 00", .invalidPrimaryKeyType, at: 8),
        Input("3f 00 01 41 00 00 03", .unknownTableType, at: 6),
        Input("3f 00 01 41 04 00 01 01 00 00 40 00 00 00", .globalKeyAsValue, at: 10),
        Input("3f 00 01 41 0a 00 01 01 00 00 00", .missingIndex, at: 10),
    ]

    static let reference = [
        // X1: integers that end early, are too long, too large, or −1.
        Input("80", .malformedInteger, at: 0),
        Input("8080808080 80808080 8000", .malformedInteger, at: 0),
        Input("80808080 80808080 8002", .malformedInteger, at: 0),
        Input("3f 8080808080 00", .malformedInteger, at: 1),
        Input("3f 80808080 10", .malformedInteger, at: 1),
        Input("3f 40", .malformedInteger, at: 1),
        Input("3f 8040", .malformedInteger, at: 1),
        Input("3f000141 00 00 8002", .malformedInteger, at: 6),
        Input("3f000141 00 00 808000", .malformedInteger, at: 6),
        Input(update + "01 80808080808080808001", .malformedInteger, at: 15),
        Input(update + "08 00 8080808008 00", .malformedInteger, at: 16),
        Input(update + "00", .malformedInteger, at: 15),
        // X2: coefficients that end early or are too long.
        Input(update + "08", .malformedDecimal, at: 15),
        Input(update + "08 80", .malformedDecimal, at: 15),
        Input(update + "08 8080808080808080808080808080808080", .malformedDecimal, at: 15),
        Input(update + "08 808080808080808080808080808080808000 0000", .malformedDecimal, at: 15),
        // X3: raw bytes that end early.
        Input(update + "03 02 41", .truncated, at: 15),
        Input(update + "04 ffffffffffffffffff01", .truncated, at: 15),
        Input(update + "06 000000", .truncated, at: 15),
        Input(update + "07 00000000000000", .truncated, at: 15),
        Input(update + "0a 0000000000000000 000000", .truncated, at: 23),
        Input(update + "0b 0000000000000000 00000000000000", .truncated, at: 23),
        Input("3f000141 02 00 0a 00", .truncated, at: 7),
        // X4 and X5: string numbers out of turn, also a number used again; strings defined twice.
        Input("3f000141 3f000142", .stringOutOfOrder, at: 4),
        Input("3f0000 3f0100", .duplicateString, at: 3),
        // X6: names not defined, wherever one is read.
        Input("3f000141 01 01", .undefinedString, at: 5),
        Input("3f000141 07 00 01", .undefinedString, at: 6),
        Input("3f000141 00 00 00 01", .undefinedString, at: 7),
        Input("3f000141 02 00 03 01", .undefinedString, at: 7),
        Input(strings + "04 00 0101 01 01 40 02", .undefinedString, at: 15),
        Input(update + "09 02", .undefinedString, at: 15),
        Input(update + "09 00 03 02", .undefinedString, at: 17),
        Input(strings + "06 00 01 09 00 00 02", .undefinedString, at: 14),
        Input("3f000141 01 ffffffff0f", .undefinedString, at: 5),
        // X7: unknown types, wherever one is read.
        Input(update + "0c", .unknownDataType, at: 14),
        Input(update + "46", .unknownDataType, at: 14),
        Input("3f000141 02 00 0c", .unknownDataType, at: 6),
        Input("3f000141 00 00 00 00 0c", .unknownDataType, at: 8),
        Input(strings + "06 00 01 0c", .unknownDataType, at: 11),
        Input(strings + "06 00 01 01 00 02 0c", .unknownDataType, at: 14),
        // X8: unknown collection types.
        Input(strings + "06 00 01 01 00 04", .unknownCollectionType, at: 13),
        Input(strings + "0b 00 0101 01 00 04", .unknownCollectionType, at: 14),
        // X9: String values; a Binary of that size is only too long for the input.
        Input(update + "03 f0ffff07", .stringTooLong, at: 15),
        Input(update + "04 f0ffff07", .truncated, at: 15),
        // X10 and X11: types that are no keys, and the one that is not a value.
        Input(update + "09 00 02 00", .invalidObjectKeyType, at: 16),
        Input(update + "09 00 41", .invalidObjectKeyType, at: 16),
        Input(strings + "0c 00 0101 01 00 40", .globalKeyAsValue, at: 14),
        // X12: nanoseconds of more than 31 bits.
        Input(update + "05 00 8080808008 00", .timestampOutOfRange, at: 15),
        // X13: unknown instructions.
        Input("0e", .unknownInstruction, at: 0),
        Input("ff03", .unknownInstruction, at: 0),
        // X14 and X15: table types and primary key types.
        Input("3f000141 00 00 ff01", .unknownTableType, at: 6),
        Input("3f000141 00 00 02 00 02", .invalidPrimaryKeyType, at: 8),
        Input("3f000141 00 00 00 00 09", .invalidPrimaryKeyType, at: 8),
        // X16: list instructions without an index, before the value is read.
        Input(strings + "08 00 0101 01 00 40", .missingIndex, at: 14),
        Input(strings + "08 00 0101 01 01 4000 40", .missingIndex, at: 16),
        Input(strings + "09 00 0101 01 00", .missingIndex, at: 14),
        Input(strings + "0a 00 0101 01 02 00 4001", .missingIndex, at: 17),
        // Counts that promise more than there is.
        Input(strings + "04 00 0101 01 ffffffff0f", .malformedInteger, at: 18),
        Input(strings + "04 00 0101 01 ffffffff0f 0000", .malformedInteger, at: 20),
    ]

    static let strict = [
        Input(update + "05 00 8094ebdc03 00", .inconsistentTimestamp, at: 15),
        Input(update + "05 01 41 00", .inconsistentTimestamp, at: 15),
        Input(update + "05 41 01 00", .inconsistentTimestamp, at: 15),
        Input(update + "05 00 8080808048 00", .nanosecondsTooSmall, at: 15),
        Input(strings + "06 00 01 40 00 00", .invalidColumnType, at: 11),
        Input(strings + "06 00 01 41 01 00", .invalidColumnType, at: 11),
        Input(strings + "06 00 01 45 01 01", .invalidColumnType, at: 11),
        Input(strings + "04 00 0101 01 01 8080808010 00 00", .indexTooLarge, at: 14),
        Input(update + "8102 00 00", .codeTooLarge, at: 14),
        Input("3f000141 8204 00 00", .codeTooLarge, at: 4),
        Input(update + "08 8080808080808080808080808080808002 00 00", .decimalOutOfRange, at: 15),
        Input(update + "08 00 e0cf00 00", .decimalOutOfRange, at: 15),
        Input(update + "08 00 a070 00", .decimalOutOfRange, at: 15),
        Input("3f000141 01 41", .unexpectedSign, at: 5),
        Input("3f000141 00 00 41", .unexpectedSign, at: 6),
        // The opcode −250 is 5 in a byte.
        Input("3f000141 f941 00", .unexpectedSign, at: 4),
        Input(strings + "06 00 01 00 00 00", .mixedNotNullable, at: 11),
        Input(strings + "06 00 01 00 00 01", .mixedNotNullable, at: 11),
    ]

    @Test func everyRuleThatCanBeViolatedIsTested() {
        let tested = Set((Self.chapterExamples + Self.reference + Self.strict).map(\.rule))
        // X17 needs a size type of fewer than 64 bits, tooLarge an arena of 4 GiB.
        #expect(Set(ChangesetError.Rule.allCases).subtracting(tested) == [.binaryTooLong, .tooLarge])
    }
}
