/// What a file can make its reader do (`Spec/RealmFile.md`, sections 4 and 6).
enum RealmFileLimits {
    /// Objects of a leaf, and children of an inner node, in a tree of objects.
    static let clusterElementsMax = 256
    /// Elements of a leaf, and children of an inner node, in a tree of elements.
    static let listNodeElementsMax = 1_000
    /// Elements of other arrays that take no bytes.
    static let emptyElementsMax = 2_002
    /// Columns of a table.
    static let columnsMax = 65_536
    /// Levels of a tree.
    static let treeLevelsMax = 12
    /// Collections and embedded objects in each other.
    static let nestingLevelsMax = 128
    /// Places of damage that are kept to be named; further ones are counted.
    static let problemsMax = 1_000
    /// Bytes of lines for each byte of the file.
    static let outputBytesPerFileByteMax = 64
    /// Bytes of lines beside, whatever the size of the file is.
    static let outputBytesMin = 16 << 20
    /// What deflate makes of a byte at most.
    static let inflationRatioMax = 1_032
}
