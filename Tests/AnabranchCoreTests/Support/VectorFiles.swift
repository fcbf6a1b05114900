import AnabranchCore
import CZstd
import Foundation

/// A merge as the vectors record it: what the reference made of both sides, or that it refused.
struct MergeVector: Decodable, Sendable {
    struct Input: Decodable, Sendable {
        var version: UInt64
        var timestamp: ChangesetTime
        var origin: ClientFileID
        var hex: String
    }

    struct Output: Codable, Equatable, Sendable {
        var dirty: Bool
        var hex: String
    }

    var seed: UInt64?
    /// The file ident of the replica that merged; 1 is the server.
    var at: UInt64
    var local: [Input]
    var incoming: [Input]
    var local_after: [Output]?
    var incoming_after: [Output]?
    var error: String?
}

/// What a scenario has for the codec: changesets as clients recorded them, and the merges of all replicas.
struct ScenarioVector: Decodable, Sendable {
    struct Upload: Decodable, Sendable {
        var hex: String
    }

    var seed: UInt64
    var profile: String
    var uploads: [Upload]
    var merges: [MergeVector]
}

/// The samples in `Tests/Vectors`.
enum VectorFiles {
    static let merges: [MergeVector] = lines(of: "merges.jsonl.zst")
    static let scenarios: [ScenarioVector] = lines(of: "scenarios.jsonl.zst")

    /// Changesets of many kinds, each once: recorded ones and made-up ones in turns.
    static func changesets(_ count: Int) -> [[UInt8]] {
        var seen = Set<String>()
        let recorded = scenarios.flatMap(\.uploads).map(\.hex).filter { $0.utf8.count > 60 && seen.insert($0).inserted }
        let madeUp = merges.flatMap(\.incoming).map(\.hex).filter { $0.utf8.count > 60 && seen.insert($0).inserted }
        return zip(spread(recorded, count / 2), spread(madeUp, count / 2)).flatMap { [Hex.bytes($0), Hex.bytes($1)] }
    }

    private static func spread<Value>(_ values: [Value], _ count: Int) -> [Value] {
        (0..<count).map { values[$0 * values.count / count] }
    }

    private static func lines<Value: Decodable>(of file: String) -> [Value] {
        do {
            let decoder = JSONDecoder()
            return try rawLines(of: file).map { try decoder.decode(Value.self, from: $0) }
        } catch {
            preconditionFailure("\(file): \(error)")
        }
    }

    /// The lines of a sample as they are.
    static func rawLines(of file: String) -> [Data] {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let path = tests.deletingLastPathComponent().appendingPathComponent("Vectors/\(file)")
        do {
            return try decompress(try Data(contentsOf: path)).split(separator: UInt8(ascii: "\n"))
        } catch {
            preconditionFailure("\(path.path): \(error)")
        }
    }

    private static func decompress(_ file: Data) throws -> Data {
        try file.withUnsafeBytes { file in
            var text = Data(count: Int(ZSTD_getFrameContentSize(file.baseAddress, file.count)))
            let count = text.withUnsafeMutableBytes {
                ZSTD_decompress($0.baseAddress, $0.count, file.baseAddress, file.count)
            }
            guard ZSTD_isError(count) == 0 else { throw CocoaError(.fileReadCorruptFile) }
            return text
        }
    }
}
