/// The rows of a table that are the same records as objects which no row had (`Spec/Capture.md`, section 3), and those
/// that are alone.
public struct CaptureMatches: Equatable, Sendable {
    /// A row, and the object that it is.
    public struct Pair: Equatable, Sendable {
        /// The key of the row as SQL spells it.
        public let key: String
        /// The key of the object, as 32 hex digits.
        public let object: String
        /// The columns that have not the values of the object.
        public let different: [String]

        package init(key: String, object: String, different: [String]) {
            (self.key, self.object, self.different) = (key, object, different)
        }
    }

    /// Values that several rows or objects have, so that none of them is matched.
    public struct Ambiguity: Equatable, Sendable {
        /// The values as SQL spells them; links as keys of objects, and times as milliseconds.
        public let values: String
        /// The number of rows with them.
        public let rows: Int
        /// The number of objects with them.
        public let objects: Int

        package init(values: String, rows: Int, objects: Int) {
            (self.values, self.rows, self.objects) = (values, rows, objects)
        }
    }

    /// The table.
    public let table: String
    /// The columns that tell which record a row is.
    public let columns: [String]
    /// The number of pairs.
    public internal(set) var count = 0
    /// The number of pairs of which columns differ.
    public internal(set) var differentCount = 0
    /// The first hundred pairs.
    public internal(set) var pairs: [Pair] = []
    /// The number of values that are ambiguous.
    public internal(set) var ambiguousCount = 0
    /// The first hundred of them.
    public internal(set) var ambiguous: [Ambiguity] = []
    /// The rows without an object: they become new objects.
    public internal(set) var rows = 0
    /// The objects without a row: they become new rows.
    public internal(set) var objects = 0

    static let shownCount = 100

    package init(table: String, columns: [String]) { (self.table, self.columns) = (table, columns) }

    /// The matches of a further round, with those of the earlier ones.
    func following(_ earlier: Self) -> Self {
        var all = self
        all.count += earlier.count
        all.differentCount += earlier.differentCount
        all.pairs = Array((earlier.pairs + pairs).prefix(Self.shownCount))
        return all
    }

    mutating func add(_ pair: Pair) {
        count += 1
        if !pair.different.isEmpty { differentCount += 1 }
        if pairs.count < Self.shownCount { pairs.append(pair) }
    }
}
