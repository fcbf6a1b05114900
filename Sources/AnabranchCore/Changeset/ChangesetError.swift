/// The reason why bytes are not a changeset (`Spec/Changeset.md`, section 11). On the wire: error 212, bad changeset.
public struct ChangesetError: Error, Equatable, Sendable {
    /// The rules for changesets. The raw value is the rule's code in the chapter: X1 to X17 are the reference's rules,
    /// S1 to S8 the strict ones.
    public enum Rule: String, Sendable, CaseIterable {
        /// The rules of the chapter.
        case malformedInteger = "X1"
        case malformedDecimal = "X2"
        case truncated = "X3"
        case stringOutOfOrder = "X4"
        case duplicateString = "X5"
        case undefinedString = "X6"
        case unknownDataType = "X7"
        case unknownCollectionType = "X8"
        case stringTooLong = "X9"
        case invalidObjectKeyType = "X10"
        case globalKeyAsValue = "X11"
        case timestampOutOfRange = "X12"
        case unknownInstruction = "X13"
        case unknownTableType = "X14"
        case invalidPrimaryKeyType = "X15"
        case missingIndex = "X16"
        case binaryTooLong = "X17"
        case inconsistentTimestamp = "S1"
        case nanosecondsTooSmall = "S2"
        case invalidColumnType = "S3"
        case indexTooLarge = "S4"
        case codeTooLarge = "S5"
        case decimalOutOfRange = "S6"
        case unexpectedSign = "S7"
        case mixedNotNullable = "S8"
        /// The arena cannot address more than 2^32 − 1 bytes, strings, path elements or instructions, or may not occupy
        /// as much memory.
        case tooLarge = "TOOLARGE"
    }

    /// The violated rule.
    public let rule: Rule
    /// The offset of the item or operand in the changeset, in bytes from its start.
    public let offset: Int
    /// A description of the fault.
    public let reason: String

    init(_ rule: Rule, at offset: Int, _ reason: String) {
        self.rule = rule
        self.offset = offset
        self.reason = reason
    }

    /// Errors are equal when the same rule is violated.
    public static func == (left: ChangesetError, right: ChangesetError) -> Bool { left.rule == right.rule }
}

extension ChangesetError: CustomStringConvertible {
    /// For example `bad changeset at byte 1: string number 0 is not defined (X6)`.
    public var description: String {
        "bad changeset at byte \(offset): \(reason) (\(rule.rawValue))"
    }
}
