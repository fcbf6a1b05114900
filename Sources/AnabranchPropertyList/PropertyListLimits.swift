/// Bounds for reading and writing (`Spec/PropertyLists.md`, section 4). Reading takes memory and time in proportion to
/// the size of the input, whatever it contains.
public struct PropertyListLimits: Hashable, Sendable {
    /// The length of a document. One in the binary form may also be no longer with everything written out that is
    /// shared in it.
    public var bytesMax: Int
    /// The number of arrays and dictionaries that may stand within each other.
    public let depthMax: Int
    /// The number of values and keys, arrays and dictionaries among them, counted as often as they stand in the whole.
    public var valuesMax: Int

    /// The largest `depthMax`: values within each other are read, compared and released by recursion.
    public static let depthLimitMax = 512

    /// Limits.
    /// - Parameters:
    ///   - bytesMax: the length of a document.
    ///   - depthMax: the number of containers within each other, at most ``depthLimitMax``.
    ///   - valuesMax: the number of values and keys.
    public init(
        bytesMax: Int = 4 << 20,
        depthMax: Int = 64,
        valuesMax: Int = 1 << 20
    ) {
        self.bytesMax = bytesMax
        self.depthMax = min(depthMax, Self.depthLimitMax)
        self.valuesMax = valuesMax
    }
}
