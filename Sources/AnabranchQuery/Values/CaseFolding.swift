/// Folds case for `[c]` (`Spec/Query.md`, section 6.4): ASCII letters and those from U+00C0 to U+00FE have two cases,
/// and no length changes. So folded bytes can be compared as bytes.
enum CaseFolding {
    /// The bytes with letters in lower case.
    static func folded(_ bytes: [UInt8]) -> [UInt8] {
        var folded = bytes
        for index in folded.indices {
            if folded[index] < 0x80 {
                folded[index] = folded[index].lowercased
            } else if index > 0, bytes[index - 1] == 0xC3, 0x80...0x9E ~= bytes[index], bytes[index] != 0x97 {
                folded[index] |= 0x20
            }
        }
        return folded
    }

    /// True if a text equals a pattern except for case. Counts the bytes, unless the lengths differ.
    static func isEqual(_ text: [UInt8], to pattern: [UInt8], _ budget: LookBudget) throws(QueryError) -> Bool {
        guard text.count == pattern.count else { return false }
        try budget.count(bytes: 2 * text.count)
        return foldedPattern(pattern) == folded(text)
    }

    /// The folded pattern. Malformed UTF-8 becomes zeros, as if it were empty and longer than its bytes.
    static func foldedPattern(_ bytes: [UInt8]) -> [UInt8] {
        isText(bytes) ? folded(bytes) : Array(repeating: 0, count: bytes.count)
    }

    static func isText(_ bytes: [UInt8]) -> Bool { String(validating: bytes, as: UTF8.self) != nil }
}
