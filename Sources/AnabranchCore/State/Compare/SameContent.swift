// Compares what two places hold: the same type, the same bits, the same order. `Content.compare` takes 1 and 1.0 for
// equal, and all collections too.

extension Content {
    func isSame(as other: Content) -> Bool {
        switch (self, other) {
        case (.null, .null): true
        case (.int(let left), .int(let right)): left == right
        case (.bool(let left), .bool(let right)): left == right
        case (.string(let left), .string(let right)), (.binary(let left), .binary(let right)): left == right
        case (.timestamp(let left), .timestamp(let right)): left == right
        case (.float(let left), .float(let right)): left.bitPattern == right.bitPattern
        case (.double(let left), .double(let right)): left.bitPattern == right.bitPattern
        case (.decimal(let left), .decimal(let right)): left == right
        case (.objectID(let left), .objectID(let right)): left == right
        case (.uuid(let left), .uuid(let right)): left == right
        case (.link(let left), .link(let right)): left == right
        case (.object(let left), .object(let right)): left.isSame(as: right)
        case (.list(let left), .list(let right)): left.isSame(as: right)
        case (.set(let left), .set(let right)): left.isSame(as: right)
        case (.dictionary(let left), .dictionary(let right)): left.isSame(as: right)
        default: false
        }
    }
}

extension Fields {
    /// Slots beyond the end hold their initial values, which nobody has written: they are the same only as such.
    func isSame(as other: Fields) -> Bool {
        contents.count == other.contents.count && zip(contents, other.contents).allSatisfy { $0.isSame(as: $1) }
    }
}

extension CountedTree where Element: ContentElement {
    /// Both are in memory as a whole.
    func isSame(as other: CountedTree) -> Bool {
        if root === other.root { return true }
        guard count == other.count else { return false }
        return zip(loadedElements, other.loadedElements).allSatisfy { $0.isSame(as: $1) }
    }
}

extension ContentElement {
    func isSame(as other: Self) -> Bool { content.isSame(as: other.content) }
}

extension DictionaryEntry {
    func isSame(as other: DictionaryEntry) -> Bool { key == other.key && content.isSame(as: other.content) }
}
