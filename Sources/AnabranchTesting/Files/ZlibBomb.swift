import CZlib

/// Zlib streams that inflate from as few bytes as possible to any number of zeros.
package enum ZlibBomb {
    private static let partBytes = 1 << 20

    /// - Parameter count: the number of zeros, a multiple of 1 MiB. The stream of 1 GiB has about 1 MiB.
    package static func zeros(_ count: Int) -> [UInt8] {
        var stream = z_stream()
        // Negative window bits: without header and checksum.
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
