import CZlib
package import Foundation

/// Reads files compressed with gzip.
package enum GzipFile {
    package static func contents(of path: String) throws -> Data {
        guard let file = FileManager.default.contents(atPath: path) else {
            throw InputError(description: "\(path): cannot be read")
        }
        guard file.count <= UInt32.max, let contents = inflate(Array(file)) else {
            throw InputError(description: "\(path): not a gzip file, or a damaged one")
        }
        return contents
    }

    private static let windowBits: Int32 = 15
    /// Added to the window bits: a gzip header is expected instead of a zlib one.
    private static let gzipFormat: Int32 = 16

    /// The contents of a gzip file; nil if the bytes are not exactly one gzip member.
    private static func inflate(_ file: [UInt8]) -> Data? {
        var stream = z_stream()
        let size = Int32(MemoryLayout<z_stream>.size)
        guard inflateInit2_(&stream, windowBits + gzipFormat, ZLIB_VERSION, size) == Z_OK else { return nil }
        defer { inflateEnd(&stream) }
        var file = file
        var result = Data()
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        return file.withUnsafeMutableBufferPointer { input in
            stream.next_in = input.baseAddress
            stream.avail_in = UInt32(input.count)
            while true {
                let outcome = chunk.withUnsafeMutableBufferPointer { output in
                    stream.next_out = output.baseAddress
                    stream.avail_out = UInt32(output.count)
                    return CZlib.inflate(&stream, Z_NO_FLUSH)
                }
                result.append(contentsOf: chunk[..<(chunk.count - Int(stream.avail_out))])
                if outcome == Z_STREAM_END { return stream.avail_in == 0 ? result : nil }
                guard outcome == Z_OK else { return nil }
            }
        }
    }
}
