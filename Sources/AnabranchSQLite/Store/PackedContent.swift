import AnabranchHistory
import AnabranchRows
import Foundation
import GRDB

/// Large contents of rows, compressed where that saves much (`Spec/Durability.md`, section 3): every byte of the
/// contents is written to the disk twice, since the write-ahead log has it too.
enum PackedContent {
    /// The size from which contents are compressed, in bytes.
    static let bytesMin = 16 << 10
    /// The same of the contents of views, most of which are many objects of one class.
    static let viewBytesMin = 1 << 10
    /// The bytes of the contents that are looked at to decide whether to compress the rest.
    private static let sampleBytes = 16 << 10
    /// The mark at the beginning of compressed contents. Contents that begin with it by themselves are compressed too.
    private static let mark: [UInt8] = [0xd7, 0x5a, 0x63, 0x01]
    /// The mark, and the size of the contents: eight bytes, the lowest first.
    private static let headBytes = 12

    /// Contents as a column has them.
    /// - Throws: `storeFailed` if there is no memory.
    static func stored(_ content: [UInt8], from bytesMin: Int = PackedContent.bytesMin) throws(HistoryError) -> Data {
        try packed(content, from: bytesMin) ?? Data(content)
    }

    /// - Returns: nil if they stay as they are.
    /// - Throws: `storeFailed` if there is no memory.
    static func packed(_ content: [UInt8], from bytesMin: Int = PackedContent.bytesMin) throws(HistoryError) -> Data? {
        let isMarked = content.starts(with: mark)
        guard isMarked || content.count >= bytesMin else { return nil }
        if !isMarked, content.count > sampleBytes,
            try !isSmall(compressed(content.prefix(sampleBytes)), sampleBytes)
        {
            return nil
        }
        let compressed = try compressed(content[...])
        guard isMarked || isSmall(compressed, content.count) else { return nil }
        var stored = Data(capacity: headBytes + compressed.count)
        stored += mark
        withUnsafeBytes(of: UInt64(content.count).littleEndian) { stored += $0 }
        stored += compressed
        return stored
    }

    private static func compressed(_ content: ArraySlice<UInt8>) throws(HistoryError) -> [UInt8] {
        guard let compressed = Zstd.compress([content], level: 1) else {
            throw HistoryError(.storeFailed, "no memory to compress \(content.count) bytes")
        }
        return compressed
    }

    private static func isSmall(_ compressed: [UInt8], _ size: Int) -> Bool { compressed.count < size / 8 * 7 }

    /// Contents that a column has in compressed form; nil if it has them as they are.
    /// - Throws: `storeDamaged`.
    static func unpacked(_ stored: UnsafeRawBufferPointer) throws(HistoryError) -> [UInt8]? {
        guard stored.starts(with: mark) else { return nil }
        let compressed = UnsafeRawBufferPointer(rebasing: stored.dropFirst(headBytes))
        guard stored.count > headBytes,
            case let size = UInt64(littleEndian: stored.loadUnaligned(fromByteOffset: mark.count, as: UInt64.self)),
            let size = Int(exactly: size), Zstd.canExpand(compressed.count, to: size),
            let content = Zstd.decompress(compressed, to: size)
        else { throw HistoryError(.storeDamaged, "compressed contents are not what was written") }
        return content
    }

    /// The same.
    static func unpacked(_ stored: [UInt8]) throws -> [UInt8]? {
        try stored.withUnsafeBytes { try unpacked($0) }
    }
}

extension Row {
    /// The contents of a column that was written with `PackedContent.stored`.
    func content(_ index: Int) throws -> [UInt8] {
        let stored = try bytes(index)
        return try PackedContent.unpacked(stored) ?? stored
    }
}

extension StateTable {
    /// The rows of one file's state.
    init(of file: Int64) { self.init(file: file, packing: PackedRows()) }
}

private struct PackedRows: RowPacking {
    func packed(_ row: [UInt8]) throws -> Data? { try PackedContent.packed(row) }

    func unpacked(_ stored: UnsafeRawBufferPointer) throws -> [UInt8]? { try PackedContent.unpacked(stored) }
}
