import CZlib

/// Bodies as zlib streams (`Spec/Protocol.md`, section 11).
package enum BodyCompression {
    /// The reason why a body could not be inflated.
    enum InflationError: String, Error {
        case tooLarge = "too large"
        case impossibleSize = "announced size cannot come out of so few bytes"
        case outOfMemory = "out of memory"
        case damaged = "not a zlib stream of the announced size"
    }

    /// How much is inflated before `stop` is asked again, in bytes.
    private static let partBytes = 64 << 10

    /// Inflates a body that must be exactly one zlib stream of exactly `size` bytes.
    ///
    /// No more than `size` bytes are reserved, and none before `size` has passed the limits. Memory is used up only as
    /// the stream fills it.
    /// - Parameter stop: called with the bytes inflated so far; if it returns true, these are the result.
    static func inflate(
        _ body: ArraySlice<UInt8>, to size: Int, limits: Limits, stop: (_ begun: [UInt8]) -> Bool = { _ in false }
    ) throws(InflationError) -> [UInt8] {
        let countable = Int(UInt32.max)
        guard size <= min(limits.inflatedBytesMax, countable), body.count <= countable else { throw .tooLarge }
        guard size <= body.count * Limits.inflationRatioMax else { throw .impossibleSize }
        var stream = z_stream()
        guard inflateInit_(&stream, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            throw .outOfMemory
        }
        defer { inflateEnd(&stream) }

        var inflated: [UInt8] = []
        inflated.reserveCapacity(size)
        var isComplete = false, isStopped = false
        body.withUnsafeBufferPointer { input in
            stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
            stream.avail_in = UInt32(input.count)
            repeat {
                let status = inflatePart(of: &stream, to: &inflated, upTo: size)
                isComplete = status == Z_STREAM_END && stream.avail_in == 0
                guard status == Z_BUF_ERROR, stream.avail_out == 0 else { break }
                isStopped = stop(inflated)
            } while inflated.count < size && !isStopped
        }
        guard isStopped || isComplete && inflated.count == size else { throw .damaged }
        return inflated
    }

    /// - Returns: zlib's status: `Z_BUF_ERROR` if the stream continues after the part.
    private static func inflatePart(of stream: inout z_stream, to inflated: inout [UInt8], upTo size: Int) -> Int32 {
        let room = min(partBytes, size - inflated.count)
        var status = Z_OK
        // zlib wants a place for the output even if there is no output.
        inflated.append(addingCapacity: max(room, 1)) { output in
            output.withUnsafeMutableBufferPointer { buffer, count in
                stream.next_out = buffer.baseAddress
                stream.avail_out = UInt32(room)
                status = CZlib.inflate(&stream, Z_FINISH)
                count = room - Int(stream.avail_out)
            }
        }
        return status
    }

    /// The size of a body from which samples of it are deflated before the rest, in bytes; and the samples.
    private static let (longBytes, sampleCount, sampleBytes) = (256 << 10, 16, 4 << 10)

    /// True unless a body is long, and samples of it become smaller by no more than an eighth: pictures, of which a
    /// megabyte takes some ten milliseconds to find that out.
    static func isWorthwhile(for body: [UInt8], level: Int) -> Bool {
        guard body.count > longBytes else { return true }
        let distance = (body.count - sampleBytes) / (sampleCount - 1)
        let samples = (0..<sampleCount).flatMap { body[$0 * distance..<$0 * distance + sampleBytes] }
        return deflate(samples, level: level).map { $0.count < samples.count / 8 * 7 } ?? false
    }

    /// The body as a zlib stream, if that is shorter.
    package static func deflate(_ body: [UInt8], level: Int) -> [UInt8]? {
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
