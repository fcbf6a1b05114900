/// A `.realm` file, as Realm's SDKs write it: the version of it that was committed last (`Spec/RealmFile.md`).
///
/// Files of the formats 10, 11 and 20 to 24 are read, encrypted or not, whatever is in them: what is damaged is an
/// error that names its place. Nothing is written, and nothing but the bytes of the file is looked at.
public final class RealmFile {
    let header: FileHeader
    let bytes: ClearBytes

    /// The number that the server has given the file; 0 if it never connected.
    package var clientFileIdent: UInt64 { header.clientFileIdent }

    /// Reads the header.
    ///
    /// - Parameter key: the 64 bytes that the file is encrypted with; nil if it is not.
    /// - Throws: `RealmFileError` for what is no Realm file, or one that is not read.
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
                "it is no Realm file, or a part of one: there is no T-DB at byte 16, and an encrypted one has pages of "
                    + "\(pageBytes) bytes, at least two")
        }
        return RealmFileError(
            .keyMissing, "it is an encrypted Realm file, which needs its key, or no Realm file at all")
    }

    /// What an export has read and written.
    public struct Report: Sendable {
        /// The lines, those of the classes among them.
        public var lineCount: Int
        /// The objects that have lines.
        public var objectCount: Int
        /// The bytes of the lines with their line feeds.
        public var byteCount: Int
        /// What was damaged and left out, the first 1,000 of it.
        public var problems: [RealmFileError]
        /// How much was damaged and left out.
        public var problemCount: Int
        /// What no file has shown that this reader was compared with.
        public var notSeen: [String]
    }

    /// Calls `write` with each line of an export of the file, without its line feed (`Spec/Export.md`).
    ///
    /// - Parameters:
    ///   - salvages: whether what is damaged is left out, and named in the report.
    ///   - outputLimit: how many bytes the lines may have; by default 64 times the file and 16 MiB more.
    ///   - localIdent: for a file that never connected, the high part of the keys of objects without a primary key.
    ///     Without one, objects of two such files have the same keys.
    /// - Throws: what `write` throws; `RealmFileError` for damage, and where the lines would be too long.
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
