import CZlib

/// Bodies as zlib streams (`Spec/Protocol.md`, section 11).
enum BodyCompression {
    /// Why a body could not be inflated, in words.
    enum InflationError: String, Error {
        case tooLarge = "too large"
        case impossibleSize = "announced size cannot come out of so few bytes"
        case outOfMemory = "out of memory"
        case damaged = "not a zlib stream of the announced size"
    }

    /// Inflates a body that must be exactly one zlib stream of exactly `size` bytes.
    ///
    /// No more than `size` bytes are reserved, and none before `size` has passed the limits.
    static func inflate(_ body: ArraySlice<UInt8>, to size: Int, limits: Limits) throws(InflationError) -> [UInt8] {
        let countable = Int(UInt32.max)
        guard size <= min(limits.inflatedBytesMax, countable), body.count <= countable else { throw .tooLarge }
        guard size <= body.count * Limits.inflationRatioMax else { throw .impossibleSize }
        var stream = z_stream()
        guard inflateInit_(&stream, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            throw .outOfMemory
        }
        defer { inflateEnd(&stream) }

        var isComplete = false
        let inflated = body.withUnsafeBufferPointer { input in
            // zlib wants to be told where the output goes even if there is none.
            [UInt8](unsafeUninitializedCapacity: max(size, 1)) { output, count in
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(size)
                isComplete = CZlib.inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_in == 0
                count = size - Int(stream.avail_out)
            }
        }
        guard isComplete, inflated.count == size else { throw .damaged }
        return inflated
    }

    /// The body as a zlib stream, if that is shorter.
    static func deflate(_ body: [UInt8], level: Int) -> [UInt8]? {
        guard body.count > 1, body.count <= Int(UInt32.max) else { return nil }
        var stream = z_stream()
        guard deflateInit_(&stream, Int32(level), ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            return nil
        }
        defer { deflateEnd(&stream) }

        var isComplete = false
        let deflated = body.withUnsafeBufferPointer { input in
            [UInt8](unsafeUninitializedCapacity: input.count - 1) { output, count in
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(output.count)
                isComplete = CZlib.deflate(&stream, Z_FINISH) == Z_STREAM_END
                count = output.count - Int(stream.avail_out)
            }
        }
        return isComplete ? deflated : nil
    }
}
