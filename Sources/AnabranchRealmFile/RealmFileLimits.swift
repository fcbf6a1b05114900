/// The bounds of the work and memory that a file can demand of its reader (`Spec/RealmFile.md`, sections 4 and 6).
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
    /// Levels of collections and embedded objects within each other.
    static let nestingLevelsMax = 128
    /// Damaged parts that are kept to be named; further ones are only counted.
    static let problemsMax = 1_000
    /// Bytes of lines for each byte of the file.
    static let outputBytesPerFileByteMax = 64
    /// Bytes of lines in addition, whatever the size of the file.
    static let outputBytesMin = 16 << 20
    /// The most bytes that one byte of a deflated stream can become.
    static let inflationRatioMax = 1_032
}
