import CZstd
package import Foundation

/// Reads files of JSON lines, plain or compressed with zstd, a line at a time.
package enum JSONLines {
    /// Calls `body` with the number of each line, from 1, its value and its text. Empty lines are skipped.
    /// - Throws: `InputError`, also if all lines are empty.
    package static func forEach<Value: Decodable>(
        in path: String, as type: Value.Type, body: (Int, Value, Data) throws -> Void
    ) throws {
        let decoder = JSONDecoder()
        var count = 0
        try forEachLine(in: path) { number, line in
            count += 1
            let value: Value
            do {
                value = try decoder.decode(type, from: line)
            } catch {
                throw InputError(description: "\(path), line \(number): \(words(of: error))")
            }
            try body(number, value, line)
        }
        if count == 0 { throw InputError(description: "\(path): is empty") }
    }

    /// Calls `body` with the number of each line, from 1, and its text. Empty lines are skipped.
    package static func forEachLine(in path: String, body: (Int, Data) throws -> Void) throws {
        for (index, line) in try lines(of: path).enumerated() where !line.isEmpty { try body(index + 1, line) }
    }

    private static func lines(of path: String) throws -> [Data] {
        guard let file = FileManager.default.contents(atPath: path) else {
            throw InputError(description: "\(path): cannot be read")
        }
        let text = path.hasSuffix(".zst") ? try decompress(file, path) : file
        return text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    }

    private static func decompress(_ file: Data, _ path: String) throws -> Data {
        guard let stream = ZSTD_createDStream() else { throw InputError(description: "\(path): out of memory") }
        defer { ZSTD_freeDStream(stream) }
        var result = Data()
        var chunk = [UInt8](repeating: 0, count: ZSTD_DStreamOutSize())
        try file.withUnsafeBytes { bytes in
            var input = ZSTD_inBuffer(src: bytes.baseAddress, size: bytes.count, pos: 0)
            var left = 1
            while input.pos < input.size || left != 0 {
                let (written, outcome) = chunk.withUnsafeMutableBytes { buffer in
                    var output = ZSTD_outBuffer(dst: buffer.baseAddress, size: buffer.count, pos: 0)
                    let outcome = ZSTD_decompressStream(stream, &output, &input)
                    return (output.pos, outcome)
                }
                let isStuck = written == 0 && input.pos == input.size && outcome != 0
                guard ZSTD_isError(outcome) == 0, !isStuck else {
                    throw InputError(description: "\(path): damaged zstd file")
                }
                result.append(contentsOf: chunk[..<written])
                left = outcome
            }
        }
        return result
    }

    private static func words(of error: any Error) -> String {
        switch error as? DecodingError {
        case .keyNotFound(let key, _): "the key \"\(key.stringValue)\" is missing"
        case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context):
            (context.codingPath.map(\.stringValue).joined(separator: ".") + ": " + context.debugDescription)
                .trimmingPrefix(": ").description
        default: "\(error)"
        }
    }
}
