import AnabranchHistory
import Foundation

/// The files of a backup: how they are flushed, copied and recognized.
enum CopiedFile {
    /// Flushes a file, and returns the size and checksum of its content.
    static func content(of name: String, in directory: URL) throws(HistoryError) -> BackupRecord.Content {
        let path = directory.appendingPathComponent(name).path
        return try explainingErrors(at: path) {
            let file = try FilePieces(path)
            try file.flush()
            var digest = ContentDigest()
            while let piece = try file.next() { digest.add(piece) }
            return digest.content
        }
    }

    /// Writes a file with the content in a backup, and flushes it.
    /// - Parameter report: called with the number of bytes that were copied since the last call.
    /// - Throws: `storeDamaged` if it is not what was backed up.
    static func copy(_ content: BackupContent, to path: String, _ report: (Int) throws -> Void) throws(HistoryError) {
        try explainingErrors(at: path) {
            let copy = try DataDirectory.makeFile(path)
            defer { try? copy.close() }
            while let piece = try content.next() {
                try copy.write(contentsOf: piece)
                try report(piece.count)
            }
            try copy.synchronize()
        }
    }

    /// Gives errors of the file system the form of errors of a store.
    static func explainingErrors<Result>(
        at path: String, _ body: () throws -> Result
    ) throws(HistoryError) -> Result {
        do {
            return try body()
        } catch let error as HistoryError {
            throw error
        } catch let error as CocoaError where error.code == .fileWriteOutOfSpace {
            throw HistoryError.diskFull(path)
        } catch {
            throw HistoryError(.storeFailed, "\(path): \(error.reasonOfSystem)")
        }
    }
}

/// Reads a file from its beginning to its end.
final class FilePieces {
    /// The size of all pieces but the last, in bytes.
    static let pieceBytes = 1 << 20

    private let path: String
    private let file: FileHandle

    init(_ path: String) throws(HistoryError) {
        self.path = path
        file = try CopiedFile.explainingErrors(at: path) {
            do {
                return try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            } catch let error as CocoaError where error.code == .fileReadNoSuchFile {
                throw HistoryError(.storeDamaged, "\(path) is missing: use another backup")
            }
        }
    }

    deinit { try? file.close() }

    func flush() throws { try file.synchronize() }

    /// - Returns: nil at the end.
    func next() throws(HistoryError) -> [UInt8]? {
        try CopiedFile.explainingErrors(at: path) {
            try file.read(upToCount: Self.pieceBytes).flatMap { $0.isEmpty ? nil : Array($0) }
        }
    }
}

/// A chain of checksums, a link for each piece.
struct ContentDigest {
    private var chain = Checksum(low: 0, high: 0)
    private(set) var bytes = 0

    mutating func add(_ piece: [UInt8]) {
        chain = chain.keyed([UInt64(piece.count)], piece)
        bytes += piece.count
    }

    var content: BackupRecord.Content {
        let checksum = chain.bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        return BackupRecord.Content(bytes: bytes, checksum: checksum)
    }
}

extension HistoryError {
    static func diskFull(_ path: String) -> HistoryError {
        HistoryError(.storeFailed, "\(path): the disk is full")
    }

    static func needsNoBase(_ path: String) -> HistoryError {
        HistoryError(.storeUnusable, "\(path) is not an incremental backup: leave --base out")
    }

    static func notBackedUp(_ path: String) -> HistoryError {
        HistoryError(.storeDamaged, "\(path) is not what was backed up: use another backup")
    }
}
