/// A `.realm` file, as Realm's SDKs write it: the version that was committed last (`Spec/RealmFile.md`).
///
/// Files of the formats 10, 11 and 20 to 24 are read, encrypted or not, whatever is in them: damage is an error that
/// names its place. Nothing is written, and nothing but the bytes of the file is looked at.
public final class RealmFile {
    let header: FileHeader
    let bytes: ClearBytes

    /// The number that the server has given the file; 0 if it never connected.
    package var clientFileIdent: UInt64 { header.clientFileIdent }

    /// Reads the header.
    ///
    /// - Parameter key: the 64 bytes with which the file is encrypted; nil if it is not.
    /// - Throws: `RealmFileError` for something that is not a Realm file, or one that is not read.
    public init(_ bytes: RealmFileBytes, key: [UInt8]? = nil) throws(RealmFileError) {
        let isClear = Self.isClear(bytes.buffer)
        guard key != nil || isClear else { throw Self.notClear(bytes.buffer.count) }
        do throws(RealmFileError) {
            self.bytes = try ClearBytes(bytes, key: key)
            header = try FileHeader(self.bytes)
        } catch {
            guard key != nil, isClear else { throw error }
            throw RealmFileError(.wrongKey, "the file is not encrypted, and needs no key")
        }
    }

    private static func isClear(_ buffer: UnsafeRawBufferPointer) -> Bool {
        buffer.count >= FileHeader.byteCount && buffer[16..<20].elementsEqual(FileHeader.mark)
    }

    private static func notClear(_ byteCount: Int) -> RealmFileError {
        let pageBytes = EncryptedPages.pageBytes
        guard byteCount >= 2 * pageBytes, byteCount.isMultiple(of: pageBytes) else {
            return RealmFileError(
                .noRealmFile,
                "it is not a Realm file, or a part of one: there is no T-DB at byte 16, and an encrypted one has pages "
                    + "of \(pageBytes) bytes, at least two")
        }
        return RealmFileError(
            .keyMissing, "it is an encrypted Realm file, which needs its key, or no Realm file at all")
    }

    /// The result of an export.
    public struct Report: Sendable {
        /// The number of lines, including those of the classes.
        public var lineCount: Int
        /// The number of objects that have lines.
        public var objectCount: Int
        /// The number of bytes of the lines with their line feeds.
        public var byteCount: Int
        /// The damaged parts that were left out, the first 1,000 of them.
        public var problems: [RealmFileError]
        /// The number of all damaged parts that were left out.
        public var problemCount: Int
        /// The features of the file that are in none of the files that this reader was checked against.
        public var notSeen: [String]
    }

    /// Calls `write` with each line of an export of the file, without its line feed (`Spec/Export.md`).
    ///
    /// - Parameters:
    ///   - salvages: whether damaged parts are left out, and named in the report.
    ///   - outputLimit: the number of bytes that the lines may have; by default 64 times the file and 16 MiB more.
    ///   - localIdent: for a file that never connected, the high part of the keys of objects without a primary key.
    ///     Without one, objects of two such files have the same keys.
    /// - Throws: the errors of `write`; `RealmFileError` for damage, and where the lines would be too long.
    public func export(
        salvages: Bool = false, outputLimit: Int? = nil, localIdent: UInt64 = 0,
        _ write: ([UInt8]) throws -> Void
    ) throws -> Report {
        let reading = FileReading(self, salvages: salvages, localIdent: localIdent)
        var line = OutputLine(OutputBudget(outputLimit, fileBytes: header.logicalSize))
        let objectCount = try ExportWriter(reading, line: &line).forEachLine(in: &line, write)
        return Report(
            lineCount: line.budget.lineCount, objectCount: objectCount, byteCount: line.budget.byteCount,
            problems: reading.problems, problemCount: reading.problemCount, notSeen: reading.notSeen)
    }
}
