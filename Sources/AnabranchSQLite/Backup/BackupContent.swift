import AnabranchHistory
import Foundation

/// The content of one file of a backup, from the first byte to the last: read as it is stored, or put together from a
/// delta and the content of the base. At the end it is checked.
final class BackupContent {
    private enum Source {
        case file(FilePieces)
        case delta(BlockDelta.Reader, since: BackupContent)
    }

    private let path: String
    private let content: BackupRecord.Content
    private let source: Source
    private var digest = ContentDigest()

    /// - Parameters:
    ///   - file: a file of the backup in `directory`.
    ///   - old: the content of the base for it.
    init(_ file: BackupRecord.File, in directory: URL, since old: BackupContent?) throws(HistoryError) {
        content = file.content
        guard let delta = file.delta else {
            path = directory.appendingPathComponent(file.name).path
            source = .file(try FilePieces(path))
            return
        }
        path = directory.appendingPathComponent(BlockDelta.name(of: file.name)).path
        guard let old else { throw HistoryError.notBackedUp(path) }
        source = .delta(try BlockDelta.Reader(path, delta), since: old)
    }

    /// - Returns: the next `FilePieces.pieceBytes`; fewer before the end, and nil there.
    /// - Throws: `storeDamaged` if the content is not what was backed up; `storeFailed`.
    func next() throws(HistoryError) -> [UInt8]? {
        if let piece = try read() {
            digest.add(piece)
            guard digest.bytes <= content.bytes else { throw HistoryError.notBackedUp(path) }
            return piece
        }
        guard digest.content == content else { throw HistoryError.notBackedUp(path) }
        return nil
    }

    private func read() throws(HistoryError) -> [UInt8]? {
        switch source {
        case .file(let pieces): return try pieces.next()
        case .delta(let delta, let old):
            let count = min(FilePieces.pieceBytes, content.bytes - digest.bytes)
            guard count > 0 else {
                // The error is to name the damaged backup, so the base is checked first.
                while try old.next() != nil {}
                try delta.checkEnd()
                return nil
            }
            var piece = try old.next() ?? []
            piece.removeLast(max(0, piece.count - count))
            piece += repeatElement(0, count: count - piece.count)
            try delta.apply(to: &piece, at: digest.bytes)
            return piece
        }
    }
}
