import AnabranchHistory
import Foundation

/// The part of a database that an incremental backup holds: the blocks in which it differs from the content of the
/// base, each preceded by its number of eight bytes, the lowest byte first; the numbers ascend. The last block of the
/// database may be shorter.
enum BlockDelta {
    /// A page of the databases: with larger blocks, a page that has changed would take its neighbours with it.
    static let blockBytes = 4 << 10
    /// The bytes of the number before each block.
    private static let numberBytes = 8

    static func name(of database: String) -> String { database + ".delta" }

    /// Writes a delta next to a database of the copy, durably, if it is smaller than that and there is room for it.
    /// - Parameters:
    ///   - old: the content of the base for the database.
    ///   - report: called with the number of bytes that were compared since the last call.
    /// - Returns: the file with the delta; nil if there is none.
    /// - Throws: `storeDamaged` if the base or the copy has changed.
    static func write(
        of file: BackupRecord.File, in directory: URL, since old: BackupContent, _ report: (Int) throws -> Void
    ) throws(HistoryError) -> BackupRecord.File? {
        let path = directory.appendingPathComponent(file.name).path
        let name = Self.name(of: file.name), deltaPath = directory.appendingPathComponent(name).path
        let isWhole = try CopiedFile.explainingErrors(at: deltaPath) {
            let delta = try DataDirectory.makeFile(deltaPath)
            defer { try? delta.close() }
            return try write(of: file, at: path, since: old, to: delta, report)
        }
        guard isWhole else {
            unlink(deltaPath)
            return nil
        }
        var file = file
        file.delta = try CopiedFile.content(of: name, in: directory)
        return file
    }

    /// - Returns: whether all of it is there.
    static func write(
        of file: BackupRecord.File, at path: String, since old: BackupContent, to delta: FileHandle,
        _ report: (Int) throws -> Void
    ) throws -> Bool {
        let new = try FilePieces(path)
        var digest = ContentDigest(), bytes = 0
        while let piece = try new.next() {
            let blocks = changes(of: piece, since: try old.next() ?? [], at: digest.bytes)
            digest.add(piece)
            bytes += blocks.count
            // Both are read to their ends in any case, to find damage now and not when they are needed.
            if bytes < file.bytes {
                do {
                    try delta.write(contentsOf: blocks)
                } catch let error as CocoaError where error.code == .fileWriteOutOfSpace {
                    bytes = file.bytes
                }
            }
            try report(piece.count)
        }
        while try old.next() != nil {}
        guard digest.content == file.content else { throw HistoryError.notBackedUp(path) }
        return bytes < file.bytes
    }

    private static func changes(of new: [UInt8], since old: [UInt8], at offset: Int) -> [UInt8] {
        var changes: [UInt8] = []
        for start in stride(from: 0, to: new.count, by: blockBytes) {
            let block = start..<min(start + blockBytes, new.count)
            if block.upperBound <= old.count, new[block] == old[block] { continue }
            let number = UInt64((offset + start) / blockBytes)
            withUnsafeBytes(of: number.littleEndian) { changes += $0 }
            changes += new[block]
        }
        return changes
    }

    /// Reads a delta from its beginning to its end, and checks it.
    final class Reader {
        private let path: String
        private let content: BackupRecord.Content
        private let file: FilePieces
        private var digest = ContentDigest()
        private var unread: ArraySlice<UInt8> = []
        /// The number of the next block; nil at the end.
        private var number: Int?

        init(_ path: String, _ content: BackupRecord.Content) throws(HistoryError) {
            self.path = path
            self.content = content
            file = try FilePieces(path)
            try advance(after: -1)
        }

        /// Puts the changed blocks into a piece of the base's content.
        /// - Parameter offset: the position at which the piece begins; the one before has ended there.
        func apply(to piece: inout [UInt8], at offset: Int) throws(HistoryError) {
            while let number, number * blockBytes < offset + piece.count {
                let start = number * blockBytes - offset
                let block = try take(min(blockBytes, piece.count - start))
                piece.replaceSubrange(start..<start + block.count, with: block)
                try advance(after: number)
            }
        }

        /// - Throws: `storeDamaged` unless all of it was read, and is what was written.
        func checkEnd() throws(HistoryError) {
            guard number == nil, digest.content == content else { throw HistoryError.notBackedUp(path) }
        }

        private func advance(after last: Int) throws(HistoryError) {
            guard try !isAtEnd() else { return number = nil }
            let next = try take(numberBytes).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            guard let next = Int(exactly: next), next > last, next <= Int.max / blockBytes else {
                throw HistoryError.notBackedUp(path)
            }
            number = next
        }

        private func isAtEnd() throws(HistoryError) -> Bool {
            if unread.isEmpty, let piece = try file.next() {
                digest.add(piece)
                unread = piece[...]
            }
            return unread.isEmpty
        }

        private func take(_ count: Int) throws(HistoryError) -> [UInt8] {
            var bytes: [UInt8] = []
            while bytes.count < count {
                guard try !isAtEnd() else { throw HistoryError.notBackedUp(path) }
                let part = unread.prefix(count - bytes.count)
                bytes += part
                unread = unread.dropFirst(part.count)
            }
            return bytes
        }
    }
}
