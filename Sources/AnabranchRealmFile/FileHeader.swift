/// The header and the top array: the valid version of the file (`Spec/RealmFile.md`, section 2).
struct FileHeader {
    static let byteCount = 24
    /// The bytes at offset 16.
    static let mark = Array("T-DB".utf8)
    /// Kinds of histories.
    static let syncClientHistory = 3, syncServerHistory = 4
    static let formats: Set<Int> = [10, 11, 20, 21, 22, 23, 24]
    private static let footerBytes = 16
    private static let footerMark: UInt64 = 0x3034_1252_37E5_26C8

    let format: Int
    /// Up to format 22 a dictionary is a tree of objects.
    var hasClusteredDictionaries: Bool { [21, 22].contains(format) }
    let isStreaming: Bool
    /// The end of the data of this version.
    private(set) var logicalSize: Int
    /// Refs of the top array, the names and the tables; nil in a file that was never written.
    private(set) var refs: (top: Int64, names: Int64, tables: Int64)?
    private(set) var version = 1
    private(set) var history = 0
    private(set) var historyRef: Int64 = 0
    private(set) var historyForm = 0
    private(set) var clientFileIdent: UInt64 = 0
    private(set) var notSeen: [String] = []

    init(_ bytes: ClearBytes) throws(RealmFileError) {
        let header = try bytes.bytes(at: 0, count: Self.byteCount)
        guard header[16..<20].elementsEqual(Self.mark) else {
            throw RealmFileError(.wrongKey, "the first half of the key is not that of the file")
        }
        let slot = Int(header[23] & 1)
        (format, logicalSize) = (Int(header[20 + slot]), bytes.count)
        var topRef = try bytes.word(at: 8 * slot)
        isStreaming = slot == 0 && topRef == .max
        if isStreaming { topRef = try Self.footer(bytes) }
        guard topRef != 0 else { return }
        guard Self.formats.contains(format) else { throw Self.unsupported(format) }
        if format < 22 { notSeen.append("format \(format)") }
        try Self.check(topRef, bytes)
        do throws(RealmFileError) {
            try readTop(
                try ArrayNode(at: Int64(truncatingIfNeeded: topRef), in: bytes, end: bytes.count), bytes.count)
        } catch {
            throw error.within(RealmFileError.Place(offset: 8 * slot))
        }
    }

    /// The top ref of a copy, which stands at its end.
    private static func footer(_ bytes: ClearBytes) throws(RealmFileError) -> UInt64 {
        let isLong = bytes.count >= Self.byteCount + footerBytes
        let mark = isLong ? try bytes.word(at: bytes.count - 8) : 0
        guard mark != footerMark.byteSwapped else { throw otherByteOrder }
        guard mark == footerMark else {
            throw RealmFileError(.truncated, "the copy is cut off: it does not end with a footer")
        }
        return try bytes.word(at: bytes.count - footerBytes)
    }

    private static func unsupported(_ format: Int) -> RealmFileError {
        let advice =
            switch format {
            case 2..<10:
                "older than 10 and not read: open the file once with an SDK of Realm Core 6 to 13, which upgrades it"
            case 25...: "newer than 24, which is what Realm's SDKs of 2024 write, and not read"
            default: "none that a release of Realm writes: the header is damaged"
            }
        return RealmFileError(.format, "format \(format) is \(advice)")
    }

    private static let otherByteOrder = RealmFileError(
        .byteOrder, "the numbers in it begin with their highest byte, which is not read")

    /// Turns a ref beyond the end of the file into an error about the file as a whole.
    private static func check(_ topRef: UInt64, _ bytes: ClearBytes) throws(RealmFileError) {
        let end = UInt64(bytes.count)
        guard topRef > end - UInt64(ArrayNode.headerBytes) else { return }
        if topRef.byteSwapped < end, topRef.byteSwapped.isMultiple(of: 8) {
            throw otherByteOrder
        }
        throw RealmFileError(.truncated, "the file is cut off: it has \(end) bytes, and goes on at \(topRef)")
    }

    private mutating func readTop(_ top: ArrayNode, _ size: Int) throws(RealmFileError) {
        try top.requireRefs()
        guard !top.isInner, [3, 5, 7, 9, 10, 11, 12].contains(top.count) else {
            throw .damaged(at: top.ref, "a top array of \(top.count) elements")
        }
        if ![3, 7, 11].contains(top.count) { notSeen.append("a top array of \(top.count) elements") }
        refs = (Int64(top.ref), top.integer(at: 0), top.integer(at: 1))
        logicalSize = try top.tagged(at: 2, "the size of the file")
        guard logicalSize <= size else {
            throw RealmFileError(.truncated, "the file is cut off: it has \(size) bytes of \(logicalSize)")
        }
        guard logicalSize >= Self.byteCount else { throw .damaged(at: top.ref, "a file of \(logicalSize) bytes") }
        if top.count > 6 { version = max(1, try top.tagged(at: 6, "the version")) }
        if top.count > 8 {
            history = try top.tagged(at: 7, "the kind of the history")
            historyRef = top.integer(at: 8)
        }
        if top.count > 9 { historyForm = try top.tagged(at: 9, "the form of the history") }
        if top.count > 10 { clientFileIdent = UInt64(try top.tagged(at: 10, "the client file ident")) }
        if ![0, 2, 3].contains(history) { notSeen.append("a history of the kind \(history)") }
    }
}
