/// The bytes that an export may write: a few bytes of a file can stand for any number in the lines
/// (`Spec/RealmFile.md`, section 6).
struct OutputBudget {
    /// The length of the shortest line of an object, in bytes.
    private static let lineBytesMin = 13

    let limit: Int
    private(set) var lineCount = 0
    private(set) var byteCount = 0
    private var objectCount = 0
    /// The bytes of the keys of objects that are held to sort them, and for links; and their bound, whatever the limit
    /// of the lines is.
    private var keyBytes = 0
    private let keyBytesMax: Int
    /// The bytes of names and values in the line under way.
    private var pendingBytes = 0

    /// - Parameter limit: in bytes; by default it follows from the size of the file.
    init(_ limit: Int?, fileBytes: Int) {
        let standard = RealmFileLimits.outputBytesPerFileByteMax * fileBytes + RealmFileLimits.outputBytesMin
        self.limit = limit ?? standard
        keyBytesMax = max(self.limit, standard)
    }

    /// Counts text before memory is taken for it.
    mutating func count(_ bytes: Int, before next: @autoclosure () -> String) throws(RealmFileError) {
        pendingBytes += bytes
        try check(pendingBytes, before: next())
    }

    /// Counts a line with its line feed.
    mutating func countLine(_ bytes: Int, before next: @autoclosure () -> String) throws(RealmFileError) {
        try check(bytes + 1, before: next())
        byteCount += bytes + 1
        lineCount += 1
        pendingBytes = 0
    }

    private func check(_ bytes: Int, before next: @autoclosure () -> String) throws(RealmFileError) {
        guard bytes > limit - byteCount else { return }
        throw RealmFileError(
            .outputLimit,
            "the lines would have more than \(limit) bytes: they end after line \(lineCount) (\(byteCount) bytes), "
                + "before \(next())")
    }

    /// Counts objects, and the bytes of their keys: an enumerated key takes no bytes of the file.
    mutating func count(objects: Int, keyBytes: Int) throws(RealmFileError) {
        objectCount += objects
        self.keyBytes += keyBytes
        let objectsMax = limit / Self.lineBytesMin
        guard objectCount <= objectsMax else {
            throw RealmFileError(
                .outputLimit, "more than \(objectsMax) objects, whose lines would have more than \(limit) bytes")
        }
        guard self.keyBytes <= keyBytesMax else {
            throw RealmFileError(.outputLimit, "the keys of the objects have more than \(keyBytesMax) bytes")
        }
    }
}
