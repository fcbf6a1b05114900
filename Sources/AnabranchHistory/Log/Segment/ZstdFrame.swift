/// Compressed bytes in a log segment, with their size. They have passed the bounds checks, but were not decoded.
struct ZstdFrame: Sendable {
    /// The size of the decompressed content, in bytes.
    let size: Int
    private let compressed: ArraySlice<UInt8>

    /// - Parameter sizeMax: of the decompressed content, in bytes.
    init(from reader: inout SegmentReader, sizeMax: Int) throws(HistoryError) {
        size = try reader.count(atMost: sizeMax)
        compressed = try reader.countedBytes()
        guard Zstd.canExpand(compressed.count, to: size) else {
            throw reader.damaged("\(size) bytes cannot come out of \(compressed.count)")
        }
    }

    /// Decompresses the content; nil unless it has exactly the promised size. Apart from the fixed memory of the
    /// decoder, no other memory is reserved.
    func decompress() -> [UInt8]? { compressed.withUnsafeBytes { Zstd.decompress($0, to: size) } }

    /// Appends content in the form that `init(from:sizeMax:)` reads.
    /// - Parameter parts: the content; the bytes within a part are similar, so each part has a block of its own.
    /// - Throws: `storeFailed` if memory is short.
    static func write(_ parts: [[UInt8]], level: Int, to writer: inout SegmentWriter) throws(HistoryError) {
        let parts = parts.filter { !$0.isEmpty }
        let size = parts.reduce(0) { $0 + $1.count }
        guard let compressed = parts.isEmpty ? [] : Zstd.compress(parts.map { $0[...] }, level: level) else {
            throw HistoryError(.storeFailed, "no memory to compress \(size) bytes")
        }
        writer.write(count: size)
        writer.write(counted: compressed)
    }
}
