import AnabranchCore

/// The line of an export that is under way, and the budget of all lines.
struct OutputLine {
    private(set) var bytes: [UInt8] = []
    private(set) var budget: OutputBudget
    /// The object that the line is about; nil for the lines of the classes.
    private var object: (content: ClassContent, key: PrimaryKey)?

    init(_ budget: OutputBudget) { self.budget = budget }

    /// Begins the line of an object.
    mutating func begin(_ content: ClassContent, _ key: PrimaryKey) {
        object = (content, key)
        bytes.removeAll(keepingCapacity: true)
        bytes.append(UInt8(ascii: "["))
        bytes += content.label
        bytes.append(UInt8(ascii: ","))
        JSONText.append(key, .exact, to: &bytes)
        bytes.append(UInt8(ascii: ","))
    }

    /// The place of damage in the line.
    ///
    /// - Parameter place: the place as far as it is known, without the object.
    func place(_ place: RealmFileError.Place? = nil) -> RealmFileError.Place {
        var place = place ?? object?.content.table.place ?? RealmFileError.Place()
        place.object = object.map { Self.text($0.key) }
        return place
    }

    private static func text(_ key: PrimaryKey) -> String {
        var text: [UInt8] = []
        JSONText.append(key, .exact, to: &text)
        return String(excerptOf: text)
    }

    /// The part that is written next, in words.
    private static func next(_ object: (content: ClassContent, key: PrimaryKey)?) -> String {
        guard let (content, key) = object else { return "the classes" }
        return "the object \(text(key)) of \(String(excerptOf: content.table.className))"
    }

    // MARK: Writing

    mutating func append(_ byte: UInt8) { bytes.append(byte) }

    mutating func append(_ text: String) { bytes += text.utf8 }

    mutating func append(_ text: [UInt8]) { bytes += text }

    /// - Parameter count: the least number of bytes that `write` appends.
    mutating func append(counting count: Int, _ write: (inout [UInt8]) -> Void) throws(RealmFileError) {
        try budget.count(count, before: Self.next(object))
        let start = bytes.count
        write(&bytes)
        try budget.count(bytes.count - start - count, before: Self.next(object))
    }

    /// Counts an omitted part as if it had this many bytes.
    mutating func count(skipped count: Int) throws(RealmFileError) {
        try budget.count(count, before: Self.next(object))
    }

    mutating func remove(from start: Int) { bytes.removeLast(bytes.count - start) }

    /// Ends the line.
    mutating func end(_ write: ([UInt8]) throws -> Void) throws {
        try budget.countLine(bytes.count, before: Self.next(object))
        try write(bytes)
    }

    /// Writes a line that is not about an object.
    mutating func write(line: String, _ write: ([UInt8]) throws -> Void) throws {
        bytes = Array(line.utf8)
        try end(write)
    }

    mutating func count(objects: Int, keyBytes: Int) throws(RealmFileError) {
        try budget.count(objects: objects, keyBytes: keyBytes)
    }
}
