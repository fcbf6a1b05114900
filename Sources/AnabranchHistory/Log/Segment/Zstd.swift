import CZstd
import Synchronization

/// Compression by zstd. Callers keep sizes and checksums.
package enum Zstd {
    /// A block of zstd has at least four bytes, and decompresses to 128 KiB at most.
    private static let expansion = 32 << 10
    /// How far back repetitions are looked for, as a power of two: 1 MiB.
    private static let windowLog: Int32 = 20

    /// True if `count` compressed bytes can decompress to `size` bytes.
    package static func canExpand(_ count: Int, to size: Int) -> Bool { size / expansion <= count }

    /// Compresses bytes.
    /// - Parameters:
    ///   - parts: not empty; the bytes within a part are similar, so each part has a block of its own.
    ///   - level: zstd's: 1 is fast, 19 is small.
    /// - Returns: nil if memory is short.
    package static func compress(_ parts: [ArraySlice<UInt8>], level: Int) -> [UInt8]? {
        guard let context = ZSTD_createCCtx() else { return nil }
        defer { ZSTD_freeCCtx(context) }
        let parameters: [(ZSTD_cParameter, Int32)] = [
            (ZSTD_c_compressionLevel, Int32(level)), (ZSTD_c_windowLog, windowLog), (ZSTD_c_contentSizeFlag, 0),
            (ZSTD_c_checksumFlag, 0),
        ]
        for (parameter, value) in parameters { ZSTD_CCtx_setParameter(context, parameter, value) }
        ZSTD_CCtx_setPledgedSrcSize(context, UInt64(parts.reduce(0) { $0 + $1.count }))
        let room = parts.reduce(64) { $0 + ZSTD_compressBound($1.count) }
        var left = 0
        let compressed = [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
            var output = ZSTD_outBuffer(dst: buffer.baseAddress, size: room, pos: 0)
            for (number, part) in parts.enumerated() where left == 0 {
                left = part.withUnsafeBytes { bytes in
                    var input = ZSTD_inBuffer(src: bytes.baseAddress, size: bytes.count, pos: 0)
                    let isLast = number == parts.count - 1
                    return ZSTD_compressStream2(context, &output, &input, isLast ? ZSTD_e_end : ZSTD_e_flush)
                }
            }
            count = output.pos
        }
        // What is left to be written, or an error.
        return left == 0 ? compressed : nil
    }

    /// Decompresses bytes.
    /// - Returns: nil unless exactly `size` bytes result, or if memory is short.
    package static func decompress(_ compressed: UnsafeRawBufferPointer, to size: Int) -> [UInt8]? {
        guard size > 0 else { return compressed.isEmpty ? [] : nil }
        guard let decoder = ZstdDecoder.take() else { return nil }
        defer { decoder.giveBack() }
        let content = [UInt8](unsafeUninitializedCapacity: size) { output, count in
            let written = ZSTD_decompressDCtx(
                decoder.context, output.baseAddress, size, compressed.baseAddress, compressed.count)
            count = ZSTD_isError(written) == 0 ? written : 0
        }
        return content.count == size ? content : nil
    }
}

/// The memory of a decoder, 160 KB or so. One is kept for the next caller: to get that much from the system and return
/// it costs as much as decompressing a segment.
private struct ZstdDecoder: @unchecked Sendable {
    let context: OpaquePointer

    private static let idle = Mutex<ZstdDecoder?>(nil)

    /// - Returns: nil if memory is short.
    static func take() -> ZstdDecoder? {
        idle.withLock { $0.take() } ?? ZSTD_createDCtx().map(ZstdDecoder.init)
    }

    func giveBack() {
        let other = Self.idle.withLock { idle in
            defer { idle = self }
            return idle
        }
        if let other { ZSTD_freeDCtx(other.context) }
    }
}
