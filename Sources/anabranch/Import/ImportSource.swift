import AnabranchCore
import AnabranchRules
import Foundation

/// The lines of a file, its records of CSV or its documents of BSON, read one after the other; also where it is
/// compressed with gzip.
struct ImportSource {
    private static let pieceBytes = 1 << 20

    private let file: FileHandle
    private let name: String
    private var gzip: GzipStream?
    private var buffer: [UInt8] = []
    private var position = 0
    private var isAtEnd = false
    /// True if the file has documents of BSON, as mongodump writes them.
    private(set) var isBSON = false
    /// True if the file is a table in CSV, whose records may have several lines.
    var isTable = false
    /// The meaning of the records; nil before the first one, with the names, was read.
    var table: CSVTable?
    /// The number of lines that were read.
    private var linesRead = 0
    /// The length of the file, in bytes; nil if it is not known.
    let byteCount: Int?
    /// The number of bytes of the file that were read.
    private(set) var bytesRead = 0
    /// The number of the line or document that was handed out last, from 1; of a record, that of its first line.
    private(set) var lineNumber = 0
    /// Its length, in bytes. Of a line that is too long only the end was handed out: the rest is not kept.
    private(set) var size = 0
    var lineBytesMax = ImportRun.lineBytesMax

    /// - Parameter path: `-` is the standard input.
    init(_ path: String) throws {
        name = path
        if path == "-" {
            (file, byteCount) = (FileHandle.standardInput, nil)
        } else {
            guard let file = FileHandle(forReadingAtPath: path) else {
                throw InputError(description: "\(path): \(String(cString: strerror(errno)))")
            }
            self.file = file
            let values = try? URL(fileURLWithPath: path).resourceValues(forKeys: [.isRegularFileKey, .fileSizeKey])
            byteCount = values?.isRegularFile == true ? values?.fileSize : nil
        }
        try begin()
    }

    /// - Parameter name: the file's name in errors.
    init(_ file: FileHandle, name: String, byteCount: Int) throws {
        (self.file, self.name, self.byteCount) = (file, name, byteCount)
        try begin()
    }

    private mutating func begin() throws {
        if try has(2), buffer.starts(with: [0x1f, 0x8b]) {
            gzip = try GzipStream(buffer, name: name)
            (buffer, isAtEnd) = ([], false)
        }
        try findForm()
    }

    /// The word for a line or document.
    var unit: String { isBSON ? "document" : "line" }

    /// Finds out if the file is text or BSON. Text would begin with a far larger length: its fourth byte is not zero.
    private mutating func findForm() throws {
        guard try has(4) else { return }
        for (magic, form) in Self.foreignForms where buffer.starts(with: magic) {
            throw InputError(description: "\(name): is \(form)")
        }
        if buffer.starts(with: Self.byteOrderMark) {
            position += Self.byteOrderMark.count
            return
        }
        if try has(20), buffer[16..<20].elementsEqual("T-DB".utf8) {
            throw InputError(description: "\(name): is a Realm file: give its path, so that it can be read anywhere")
        }
        isBSON = 5...ImportRun.lineBytesMax ~= nextLength
    }

    /// The UTF-8 mark that some programs write before the first line.
    private static let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]
    private static let wideForm = """
        UTF-16, as PowerShell writes with >: let mongoexport write the file with --out, or give what \
        `iconv -f UTF-16 -t UTF-8` prints
        """

    private static let foreignForms: [(magic: [UInt8], form: String)] = [
        (
            [0x6d, 0xe2, 0x99, 0x81],
            "an archive of mongodump: dump with `mongodump --out FOLDER`, and import its .bson"
        ),
        ([0x28, 0xb5, 0x2f, 0xfd], "compressed with zstd: give what `zstdcat` prints, with - as the file"),
        ([0x50, 0x4b, 0x03, 0x04], "a ZIP archive: unpack it first"),
        // The mark and a first brace or bracket; no file begins with a document of BSON of such a length.
        ([0xff, 0xfe, 0x7b, 0x00], wideForm), ([0xff, 0xfe, 0x5b, 0x00], wideForm),
        ([0xfe, 0xff, 0x00, 0x7b], wideForm), ([0xfe, 0xff, 0x00, 0x5b], wideForm),
    ]

    // MARK: Lines and documents

    private static let blanks: Set<UInt8> = [0x20, 0x09, 0x0d]

    /// The next line that is not blank, without its end, or the next document; nil at the end of the file.
    mutating func next() throws -> [UInt8]? {
        if isBSON { return try nextBSON() }
        while let line = isTable ? try nextRecord() : try nextLine() {
            if size > lineBytesMax || !line.allSatisfy(Self.blanks.contains) { return line }
        }
        return nil
    }

    /// - Throws: `LineError` if only the end of the last returned line was kept.
    func requireWhole() throws(LineError) {
        guard size <= lineBytesMax else { throw LineError("it has \(size) bytes, more than \(lineBytesMax)") }
    }

    /// The document in a line, or in bytes of BSON.
    func document(_ bytes: [UInt8]) throws(LineError) -> DocumentValue {
        try requireWhole()
        if let table { return try table.document(bytes) }
        return isBSON ? try DocumentValue(bson: bytes) : try DocumentValue(line: bytes)
    }

    private mutating func nextLine() throws -> [UInt8]? {
        var searched = position, dropped = 0
        while true {
            if let end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                return take(end + 1 - position, after: dropped)
            }
            guard !isAtEnd else {
                let isLine = dropped > 0 || position < buffer.count
                return isLine ? take(buffer.count - position, after: dropped) : nil
            }
            if buffer.count - position > lineBytesMax {
                dropped += buffer.count - position
                position = buffer.count
            }
            searched = buffer.count - position
            try readMore()
        }
    }

    /// The next record of a table: a line feed between quotation marks does not end it.
    private mutating func nextRecord() throws -> [UInt8]? {
        var searched = position, dropped = 0, isQuoted = false, lines = 0
        while true {
            while searched < buffer.count {
                let byte = buffer[searched]
                searched += 1
                if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
                guard byte == UInt8(ascii: "\n") else { continue }
                lines += 1
                if !isQuoted { return takeRecord(searched - position, ofLines: lines, after: dropped) }
            }
            guard !isAtEnd else {
                guard dropped > 0 || position < buffer.count else { return nil }
                return takeRecord(buffer.count - position, ofLines: lines + 1, after: dropped)
            }
            if buffer.count - position > lineBytesMax {
                dropped += buffer.count - position
                position = buffer.count
            }
            searched = buffer.count - position
            try readMore()
        }
    }

    private mutating func takeRecord(_ count: Int, ofLines lines: Int, after dropped: Int) -> [UInt8] {
        defer {
            lineNumber = linesRead + 1
            linesRead += lines
        }
        return take(count, after: dropped)
    }

    private mutating func take(_ count: Int, after dropped: Int) -> [UInt8] {
        lineNumber += 1
        let start = position
        position += count
        var end = position
        if end > start, buffer[end - 1] == UInt8(ascii: "\n") { end -= 1 }
        if end > start, buffer[end - 1] == UInt8(ascii: "\r") { end -= 1 }
        size = dropped + end - start
        return Array(buffer[start..<end])
    }

    private mutating func nextBSON() throws -> [UInt8]? {
        guard try has(1) else { return nil }
        lineNumber += 1
        var reason = "the file ends within it"
        if try has(4), !(5...ImportRun.lineBytesMax ~= nextLength) {
            reason = "its length is \(nextLength), and nothing can be read on"
        } else if try has(4), try has(nextLength) {
            size = nextLength
            defer { position += size }
            return Array(buffer[position..<position + size])
        }
        throw InputError(description: "\(name), document \(lineNumber): \(reason)")
    }

    /// The length at the beginning of a document of BSON.
    private var nextLength: Int {
        buffer[position..<position + 4].reversed().reduce(0) { $0 << 8 | Int($1) }
    }

    // MARK: Bytes

    /// True if at least `count` bytes are left.
    private mutating func has(_ count: Int) throws -> Bool {
        while buffer.count - position < count, !isAtEnd { try readMore() }
        return buffer.count - position >= count
    }

    /// Drops what was handed out, and reads what is there, without waiting for more.
    private mutating func readMore() throws {
        buffer.removeFirst(position)
        position = 0
        let piece = if let gzip { try gzip.next { try read() } } else { try read() }
        isAtEnd = piece.isEmpty
        buffer += piece
    }

    private mutating func read() throws -> [UInt8] {
        let piece = try [UInt8](unsafeUninitializedCapacity: Self.pieceBytes) { bytes, count in
            let found = Foundation.read(file.fileDescriptor, bytes.baseAddress, bytes.count)
            guard found >= 0 else {
                throw InputError(description: "\(name): \(String(cString: strerror(errno)))")
            }
            count = found
        }
        bytesRead += piece.count
        return piece
    }
}
