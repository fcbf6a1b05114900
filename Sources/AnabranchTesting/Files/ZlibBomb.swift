import CZlib

/// Zlib streams of zeros: as few bytes as that can be, of as many as are wanted.
package enum ZlibBomb {
    private static let partBytes = 1 << 20

    /// - Parameter count: how many zeros it inflates to, a multiple of a MiB. A GiB makes about a MiB.
    package static func zeros(_ count: Int) -> [UInt8] {
        var stream = z_stream()
        // Without head and checksum.
        let begun = deflateInit2_(
            &stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size))
        precondition(begun == Z_OK && count > 0 && count.isMultiple(of: partBytes))
        defer { deflateEnd(&stream) }
        // A part that refers to nothing before it can be repeated.
        let part = deflate(&stream, Z_FULL_FLUSH), last = deflate(&stream, Z_FINISH)
        let body = [UInt8]((0..<count / partBytes - 1).map { _ in part }.joined()) + last
        // The two sums of Adler-32.
        let checksum = UInt32(count % 65_521) << 16 | 1
        return [0x78, 0xDA] + body + (0..<4).map { UInt8(truncatingIfNeeded: checksum >> (24 - 8 * $0)) }
    }

    private static func deflate(_ stream: inout z_stream, _ flush: Int32) -> [UInt8] {
        var input = [UInt8](repeating: 0, count: partBytes)
        return [UInt8](unsafeUninitializedCapacity: partBytes) { output, count in
            input.withUnsafeMutableBufferPointer { input in
                stream.next_in = input.baseAddress
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(output.count)
                _ = CZlib.deflate(&stream, flush)
            }
            count = partBytes - Int(stream.avail_out)
        }
    }
}
