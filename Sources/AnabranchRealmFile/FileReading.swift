/// One reading of a file: the arrays that it has read, and its findings.
final class FileReading {
    let header: FileHeader
    /// The meaning of a high part of 0 in the keys of objects without a primary key.
    let clientFileIdent: UInt64
    private let bytes: ClearBytes
    private let salvages: Bool
    /// A bit for each place where an array can begin.
    private var known: [UInt64]
    private var usedBytes = FileHeader.byteCount

    /// The damaged parts that were left out: the first of them, and the number of all.
    private(set) var problems: [RealmFileError] = []
    private(set) var problemCount = 0
    /// The features of the file that are in none of the files that this reader was checked against
    /// (`Spec/RealmFile.md`, section 7).
    private(set) var notSeen: [String]

    /// The array that was read last. A value in place of a ref has no place of its own, and mostly is in this array.
    private var newest = 0

    /// - Parameters:
    ///   - salvages: whether damage is noted, and the damaged part left out.
    ///   - localIdent: the client file ident of a file that has none.
    init(_ file: RealmFile, salvages: Bool, localIdent: UInt64 = 0) {
        (header, bytes, self.salvages, notSeen) = (file.header, file.bytes, salvages, file.header.notSeen)
        clientFileIdent = header.clientFileIdent == 0 ? localIdent : header.clientFileIdent
        known = [UInt64](repeating: 0, count: header.logicalSize / 512 + 1)
    }

    /// The array at a ref. In an intact file each has one parent, so none is read twice, and together they take no more
    /// bytes than there are: work and memory are bounded by the file, and there are no cycles.
    func array(_ ref: Int64) throws(RealmFileError) -> ArrayNode {
        let node: ArrayNode
        do throws(RealmFileError) {
            node = try ArrayNode(at: ref, in: bytes, end: header.logicalSize)
        } catch {
            throw error.within(RealmFileError.Place(offset: newest))
        }
        newest = node.ref
        let (word, bit) = (node.ref / 512, UInt64(1) << UInt64(node.ref / 8 % 64))
        guard known[word] & bit == 0 else { throw .damaged(at: node.ref, "the array has two parents") }
        known[word] |= bit
        usedBytes += node.spaceBytes
        guard usedBytes <= header.logicalSize else { throw .damaged(at: node.ref, "the array overlaps with others") }
        return node
    }

    /// An array that has been read before; nil for 0.
    func knownArray(_ ref: Int64) -> ArrayNode? {
        ref == 0 ? nil : try? ArrayNode(at: ref, in: bytes, end: header.logicalSize)
    }

    /// An array with refs.
    func refs(_ ref: Int64) throws(RealmFileError) -> ArrayNode {
        let node = try array(ref)
        try node.requireRefs()
        return node
    }

    /// An array of integers.
    func integers(
        _ ref: Int64, emptyMax: Int = RealmFileLimits.emptyElementsMax
    ) throws(RealmFileError) -> ArrayNode {
        let node = try array(ref)
        try node.requireIntegers(emptyMax: emptyMax)
        return node
    }

    // MARK: Findings

    /// Runs `body`. Its damage is noted while salvaging, and thrown otherwise.
    ///
    /// - Returns: whether there was none.
    @discardableResult
    func salvaging(
        _ place: @autoclosure () -> RealmFileError.Place, _ body: () throws(RealmFileError) -> Void
    ) throws(RealmFileError) -> Bool {
        do throws(RealmFileError) {
            try body()
            return true
        } catch {
            try report(error.within(place()))
            return false
        }
    }

    /// Reports damage while salvaging, and throws it otherwise.
    func report(_ error: RealmFileError) throws(RealmFileError) {
        guard salvages, error.code == .damaged else { throw error }
        problemCount += 1
        if problems.count < RealmFileLimits.problemsMax { problems.append(error) }
    }

    func report(notSeen what: String) {
        if !notSeen.contains(what) { notSeen.append(what) }
    }
}
