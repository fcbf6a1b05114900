import AnabranchCore

/// A value on the right of a string operator (`Spec/Query.md`, section 6.4).
struct ValuePattern: Sendable {
    private let relation: Relation
    private let type: StaticType
    private let pattern: TextPattern?

    init(_ relation: Relation, ignoresCase: Bool, _ value: StateValue) {
        self.relation = relation
        type = value.type
        pattern = value.bytes.map { TextPattern(relation, ignoresCase: ignoresCase, $0) }
    }

    /// True if a text matches by the general rule.
    func matches(_ text: StateValue, _ budget: LookBudget) throws(QueryError) -> Bool {
        if type == .null { return relation == .contains ? !text.isNull : relation == .like && text.isNull }
        guard text.type == type, let bytes = text.bytes, let pattern else {
            try budget.count()
            return false
        }
        return try pattern.matches(bytes, budget)
    }
}

/// A pattern of a string operator, prepared once for many texts.
struct TextPattern: Sendable {
    private let relation: Relation
    private let ignoresCase: Bool
    private let bytes: [UInt8]
    private let search: ByteSearch

    init(_ relation: Relation, ignoresCase: Bool, _ pattern: [UInt8]) {
        self.relation = relation
        self.ignoresCase = ignoresCase
        if ignoresCase, relation == .like {
            bytes = CaseFolding.isText(pattern) ? CaseFolding.folded(pattern) : []
        } else {
            bytes = ignoresCase ? CaseFolding.foldedPattern(pattern) : pattern
        }
        search = ByteSearch(relation == .contains ? bytes : [])
    }

    func matches(_ text: [UInt8], _ budget: LookBudget) throws(QueryError) -> Bool {
        let isRead = ignoresCase || relation == .contains
        try budget.count(bytes: isRead ? text.count : min(bytes.count, text.count))
        let text = ignoresCase ? CaseFolding.folded(text) : text
        switch relation {
        case .beginsWith: return text.starts(with: bytes)
        case .endsWith: return text.count >= bytes.count && text.suffix(bytes.count).elementsEqual(bytes)
        case .contains: return search.isFound(in: text)
        default: return try Self.isLike(text, bytes, budget)
        }
    }

    /// Matches a text with `*` for any bytes and `?` for a character. At the end of the text only one remaining `*`
    /// matches, as in the reference: `a**` does not match `a`.
    private static func isLike(
        _ text: [UInt8], _ pattern: [UInt8], _ budget: LookBudget
    ) throws(QueryError) -> Bool {
        let (star, one) = (UInt8(ascii: "*"), UInt8(ascii: "?"))
        var (place, part) = (0, 0)
        // The place to continue from after the latest star: what is before it never has to be matched again.
        var retry: (place: Int, part: Int)?
        while true {
            if place == text.count, part == pattern.count || part == pattern.count - 1 && pattern[part] == star {
                return true
            }
            if place < text.count, part < pattern.count {
                if pattern[part] == star {
                    part += 1
                    retry = (place, part)
                    continue
                }
                if pattern[part] == one || pattern[part] == text[place] {
                    place = pattern[part] == one ? end(ofCharacterAt: place, in: text) : place + 1
                    part += 1
                    continue
                }
            }
            guard let latest = retry, latest.place < text.count else { return false }
            try budget.count(bytes: part - latest.part)
            (place, part) = (latest.place + 1, latest.part)
            retry = (place, part)
        }
    }

    private static func end(ofCharacterAt place: Int, in text: [UInt8]) -> Int {
        var end = place + 1
        while text[place] >= 0x80, end < text.count, text[end] & 0xC0 == 0x80 { end += 1 }
        return end
    }
}

/// Looks for bytes in bytes, each of which it reads once (the algorithm of Knuth, Morris and Pratt).
struct ByteSearch: Sendable {
    private let pattern: [UInt8]
    /// The longest shorter prefix that is also its suffix, by length of a matched prefix.
    private let borders: [Int]

    init(_ pattern: [UInt8]) {
        self.pattern = pattern
        var borders = Array(repeating: 0, count: pattern.count + 1)
        var length = 0
        for index in pattern.indices.dropFirst() {
            while length > 0, pattern[index] != pattern[length] { length = borders[length] }
            if pattern[index] == pattern[length] { length += 1 }
            borders[index + 1] = length
        }
        self.borders = borders
    }

    func isFound(in text: [UInt8]) -> Bool {
        var length = 0
        if pattern.isEmpty { return true }
        for byte in text {
            while length > 0, byte != pattern[length] { length = borders[length] }
            if byte == pattern[length] { length += 1 }
            if length == pattern.count { return true }
        }
        return false
    }
}
