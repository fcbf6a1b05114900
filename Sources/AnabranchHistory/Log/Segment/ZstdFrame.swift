/// Compressed bytes in a log segment, with their size. They have passed the bounds, but not been looked at.
struct ZstdFrame: Sendable {
    /// Of what comes out, in bytes.
    let size: Int
    private let compressed: ArraySlice<UInt8>

    /// - Parameter sizeMax: of what comes out, in bytes.
    init(from reader: inout SegmentReader, sizeMax: Int) throws(HistoryError) {
        size = try reader.count(atMost: sizeMax)
        compressed = try reader.countedBytes()
        guard Zstd.canExpand(compressed.count, to: size) else {
            throw reader.damaged("\(size) bytes cannot come out of \(compressed.count)")
        }
    }

    /// What comes out; nil unless that is as many bytes as were promised. Nothing else is reserved, beside the fixed
    /// memory of the decoder.
    func decompress() -> [UInt8]? { compressed.withUnsafeBytes { Zstd.decompress($0, to: size) } }

    /// Appends content in the form that `init(from:sizeMax:)` reads.
    /// - Parameter parts: the content; within a part bytes are alike, and so it has a block of its own.
    /// - Throws: `storeFailed` if there is no memory.
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
