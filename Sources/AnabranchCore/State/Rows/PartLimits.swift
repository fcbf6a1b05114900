/// The limits, in bytes, beyond which a content becomes a part instead of standing in the row of something else.
struct PartLimits {
    /// A value, or a collection, that takes more than about this has rows of its own.
    var inlineBytesMax = 2_048
    /// A leaf with more becomes several, as far as it has several elements.
    var leafBytesMax = 8_192
    /// In an object that would take more, smaller values and collections have rows of their own too.
    var objectBytesMax = 16_384
    /// The root of a tree stands in the row of something else if this many would take no more there than a value may.
    static let rootsInline = 4
}
