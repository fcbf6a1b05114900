import AnabranchHistory
import Foundation

/// What an incremental backup holds of a database: the blocks in which it differs from what its base holds, each behind
/// its number of eight bytes, the lowest byte first; the numbers ascend. The last block of the database may be shorter.
enum BlockDelta {
    /// A page of the databases: with larger blocks, a page that has changed would take its neighbours along.
    static let blockBytes = 4 << 10
    /// Before each block.
    private static let numberBytes = 8

    static func name(of database: String) -> String { database + ".delta" }

    /// Puts a delta in the place of a database of the copy, durably, if that is smaller.
    /// - Parameters:
    ///   - old: what the base holds of the database.
    ///   - report: is told how many bytes more are compared.
    /// - Returns: the file with the delta; without, if it is not smaller.
    static func replace(
        _ file: BackupRecord.File, in directory: URL, since old: BackupContent, _ report: (Int) throws -> Void
    ) throws(HistoryError) -> BackupRecord.File {
        let path = directory.appendingPathComponent(file.name).path
        let name = Self.name(of: file.name), deltaPath = directory.appendingPathComponent(name).path
        let bytes = try CopiedFile.explainingErrors(at: deltaPath) {
            try DataDirectory.makePrivate(deltaPath)
            let delta = try FileHandle(forWritingTo: URL(fileURLWithPath: deltaPath)), new = try FilePieces(path)
            defer { try? delta.close() }
            var offset = 0, bytes = 0
            while let piece = try new.next() {
                let blocks = changes(of: piece, since: try old.next() ?? [], at: offset)
                offset += piece.count
                bytes += blocks.count
                // It is read to its end in any case: damage of the base is found today, and not when it is needed.
                if bytes < file.bytes { try delta.write(contentsOf: blocks) }
                try report(piece.count)
            }
            while try old.next() != nil {}
            return bytes
        }
        guard bytes < file.bytes else {
            unlink(deltaPath)
            return file
        }
        var file = file
        file.delta = try CopiedFile.content(of: name, in: directory)
        unlink(path)
        return file
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
        /// The number of the block that comes next; nil at the end.
        private var number: Int?

        init(_ path: String, _ content: BackupRecord.Content) throws(HistoryError) {
            self.path = path
            self.content = content
            file = try FilePieces(path)
            try advance(behind: -1)
        }

        /// Puts the blocks that have changed into a piece of what the base holds.
        /// - Parameter offset: where the piece begins; the one before has ended there.
        func apply(to piece: inout [UInt8], at offset: Int) throws(HistoryError) {
            while let number, number * blockBytes < offset + piece.count {
                let start = number * blockBytes - offset
                let block = try take(min(blockBytes, piece.count - start))
                piece.replaceSubrange(start..<start + block.count, with: block)
                try advance(behind: number)
            }
        }

        /// - Throws: `storeDamaged` unless all of it was read, and is what was written.
        func checkEnd() throws(HistoryError) {
            guard number == nil, digest.content == content else { throw HistoryError.notBackedUp(path) }
        }

        private func advance(behind last: Int) throws(HistoryError) {
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
