import CZlib

/// Inflates gzip piece by piece, and members that follow each other as one.
final class GzipStream {
    private static let pieceBytes = 1 << 20
    /// The largest window, with the header of gzip.
    private static let windowBits: Int32 = 15 + 16

    private var stream = z_stream()
    /// The bytes that were read and not inflated yet.
    private var input: [UInt8]
    private var isAtEnd = false
    private let name: String

    /// - Parameters:
    ///   - input: the first bytes of the stream.
    ///   - name: the stream's name in errors.
    init(_ input: [UInt8], name: String) throws {
        (self.input, self.name) = (input, name)
        guard inflateInit2_(&stream, Self.windowBits, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            throw InputError(description: "\(name): out of memory")
        }
    }

    deinit { inflateEnd(&stream) }

    /// The next piece; empty at the end.
    /// - Parameter read: reads the next bytes of the stream; none at its end.
    func next(_ read: () throws -> [UInt8]) throws -> [UInt8] {
        while true {
            if input.isEmpty {
                input = try read()
                if input.isEmpty {
                    guard isAtEnd else { throw InputError(description: "\(name): the gzip data end too early") }
                    return []
                }
            }
            if isAtEnd {
                // Some programs fill the last block with zeros.
                input.removeFirst(input.prefix { $0 == 0 }.count)
                if input.isEmpty { continue }
                inflateReset(&stream)
            }
            let piece = try inflatePiece()
            if !piece.isEmpty { return piece }
        }
    }

    private func inflatePiece() throws -> [UInt8] {
        var status = Z_OK
        let piece = [UInt8](unsafeUninitializedCapacity: Self.pieceBytes) { output, count in
            input.withUnsafeMutableBufferPointer { input in
                stream.next_in = input.baseAddress
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(output.count)
                status = inflate(&stream, Z_NO_FLUSH)
            }
            count = output.count - Int(stream.avail_out)
        }
        guard [Z_OK, Z_STREAM_END, Z_BUF_ERROR].contains(status) else {
            throw InputError(description: "\(name): damaged gzip data")
        }
        isAtEnd = status == Z_STREAM_END
        input.removeFirst(input.count - Int(stream.avail_in))
        return piece
    }
}
