/// What stands in the row of something else, and what becomes a part, in bytes.
struct PartLimits {
    /// A value, or a collection, that takes more than about this has rows of its own.
    var inlineBytesMax = 2_048
    /// A leaf with more becomes several, as far as it has several elements.
    var leafBytesMax = 8_192
    /// Of an object that would take more, also smaller values and collections have rows of their own.
    var objectBytesMax = 16_384
    /// The root of a tree stands in the row of something else if so many would take no more there than a value may.
    static let rootsInline = 4
}
