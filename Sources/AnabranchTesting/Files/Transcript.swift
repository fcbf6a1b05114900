import AnabranchCore
import Foundation

/// A recorded conversation between real clients and the reference's server: one element a line of the file.
package struct Transcript {
    package struct Line {
        package let number: Int
        package let connection: Int
        package let isFromClient: Bool
        /// `http`, `binary`, `close`, `eof` and others.
        package let kind: String
        /// The lines of an HTTP head.
        package let httpHead: [String]
        /// The words in the first line of a binary WebSocket message, and what follows it.
        package let words: [String]
        package let body: [UInt8]

        /// The whole message.
        package var bytes: [UInt8] { Array(words.joined(separator: " ").utf8) + [UInt8(ascii: "\n")] + body }
    }

    package let lines: [Line]

    private struct Record: Decodable {
        enum Head: Decodable {
            case lines([String]), line(String)

            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                if let lines = try? container.decode([String].self) {
                    self = .lines(lines)
                } else {
                    self = .line(try container.decode(String.self))
                }
            }
        }

        let conn: Int
        let dir: String
        let kind: String
        let head: Head?
        let body: String?
    }

    /// - Parameter path: of a file compressed with gzip.
    package init(path: String) throws {
        let text = try GzipFile.contents(of: path)
        lines = try text.split(separator: UInt8(ascii: "\n")).enumerated().map { index, line in
            let record = try JSONDecoder().decode(Record.self, from: Data(line))
            var head: [String] = [], words: [String] = []
            switch record.head {
            case .lines(let lines): head = lines
            case .line(let line): words = line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
            case nil: break
            }
            return Line(
                number: index + 1, connection: record.conn, isFromClient: record.dir == "client", kind: record.kind,
                httpHead: head, words: words, body: try Hex.bytes(of: record.body ?? ""))
        }
    }
}
