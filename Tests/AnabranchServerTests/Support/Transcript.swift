import AnabranchTesting
import Foundation
import Testing

/// A recorded conversation between real clients and the reference's server: one element a line of the file.
struct Transcript {
    struct Line {
        let number: Int
        let connection: Int
        let isFromClient: Bool
        let kind: String
        /// The lines of an HTTP head.
        let httpHead: [String]
        /// A binary WebSocket message.
        let message: SyncMessage
    }

    let lines: [Line]

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

    /// - Parameter name: of a file in `Transcripts`, without the suffix.
    init(_ name: String) throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Transcripts/\(name).jsonl.gz")
        let text = try GzipFile.contents(of: file.path)
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
                httpHead: head, message: SyncMessage(words: words, body: Transcript.bytes(record.body ?? "")))
        }
    }

    static func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.utf8.map { UInt8($0 < 0x3a ? $0 - 0x30 : $0 - 0x57) }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}
