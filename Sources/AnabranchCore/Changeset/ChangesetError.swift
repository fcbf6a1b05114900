/// Why bytes are not a changeset (`Spec/Changeset.md`, section 11). On the wire: error 212, bad changeset.
public struct ChangesetError: Error, Equatable, Sendable {
    /// The violated rule of the chapter: R1–R17 are the reference's, S1–S8 the strict ones.
    public enum Rule: String, Sendable, CaseIterable {
        case r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15, r16, r17
        case s1, s2, s3, s4, s5, s6, s7, s8
        /// The arena cannot address more than 2^32 − 1 bytes, strings, path elements or instructions.
        case tooLarge
    }

    public let rule: Rule
    /// Where in the changeset, in bytes from its start, the item or operand was found.
    public let offset: Int
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
    public var description: String {
        "bad changeset at byte \(offset): \(reason) (\(rule.rawValue.uppercased()))"
    }
}
