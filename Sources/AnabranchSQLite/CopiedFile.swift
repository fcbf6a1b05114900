import AnabranchHistory
import Foundation

/// The bytes of a file of a backup: flushed, copied and recognized.
enum CopiedFile {
    /// In bytes.
    private static let pieceBytes = 1 << 20

    /// Flushes a file that was copied, and says what is in it.
    static func record(_ name: String, in directory: URL) throws(HistoryError) -> BackupRecord.File {
        let path = directory.appendingPathComponent(name).path
        return try explainingErrors(at: path) {
            let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            defer { try? file.close() }
            try file.synchronize()
            return try read(file, named: name) { _ in }
        }
    }

    /// Copies a file to another directory, flushes it there, and compares it with its record.
    /// - Parameter report: is told how many bytes more are copied.
    /// - Throws: `storeDamaged` if it is not what was backed up.
    static func copy(
        _ record: BackupRecord.File, from source: URL, to target: URL, _ report: (Int) throws -> Void
    ) throws(HistoryError) {
        let path = target.appendingPathComponent(record.name).path
        let found = try explainingErrors(at: path) {
            try DataDirectory.makePrivate(path)
            let file = try FileHandle(forReadingFrom: source.appendingPathComponent(record.name))
            defer { try? file.close() }
            let copy = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
            defer { try? copy.close() }
            let found = try read(file, named: record.name) { piece in
                try copy.write(contentsOf: piece)
                try report(piece.count)
            }
            try copy.synchronize()
            return found
        }
        guard found == record else {
            let place = source.appendingPathComponent(record.name).path
            throw HistoryError(.storeDamaged, "\(place) is not what was backed up: use another backup")
        }
    }

    /// A chain of checksums, a link for each piece.
    private static func read(
        _ file: FileHandle, named name: String, _ body: (Data) throws -> Void
    ) throws -> BackupRecord.File {
        var record = BackupRecord.File(name: name, bytes: 0, checksum: ""), chain = Checksum(low: 0, high: 0)
        while let piece = try file.read(upToCount: pieceBytes), !piece.isEmpty {
            chain = chain.keyed([UInt64(piece.count)], Array(piece))
            record.bytes += piece.count
            try body(piece)
        }
        record.checksum = chain.bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        return record
    }

    private static func explainingErrors<Result>(
        at path: String, _ body: () throws -> Result
    ) throws(HistoryError) -> Result {
        do {
            return try body()
        } catch let error as HistoryError {
            throw error
        } catch let error as CocoaError where error.code == .fileWriteOutOfSpace {
            throw HistoryError.diskFull(path)
        } catch {
            throw HistoryError(.storeFailed, "\(path): \(error.localizedDescription)")
        }
    }
}

extension HistoryError {
    static func diskFull(_ path: String) -> HistoryError {
        HistoryError(.storeFailed, "\(path): the disk is full")
    }
}
