import AnabranchCore
import AnabranchTesting
import Foundation

/// The samples in `Tests/Vectors`.
enum VectorFiles {
    static let merges: [MergeCase] = lines(of: "merges.jsonl.zst").compactMap {
        if case .merge(let merge) = $0 { merge } else { nil }
    }

    static let scenarios: [Scenario] = lines(of: "scenarios.jsonl.zst").compactMap {
        if case .scenario(let scenario) = $0 { scenario } else { nil }
    }

    /// The scenarios that the reference finished with one state everywhere.
    static let convergedScenarios = scenarios.filter { $0.failure == nil && $0.converged != false && $0.state != nil }

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

    private static func lines(of file: String) -> [VectorLine] {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let path = tests.deletingLastPathComponent().appendingPathComponent("Vectors/\(file)").path
        var lines: [VectorLine] = []
        do {
            try VectorLine.forEach(in: path) { lines.append($1) }
        } catch {
            preconditionFailure("\(error)")
        }
        return lines
    }
}

extension Scenario {
    var name: String { "\(profile ?? "") scenario \(seed ?? 0)" }

    /// The uploads by the version of the log on whose state their client recorded them, where that is known: nobody
    /// else's entries lie between what the client had downloaded and what it had uploaded.
    var recordings: [Int: [Upload]] {
        var versions: [ClientFileID: [ClientVersion: Int]] = [:]
        for entry in server_log {
            versions[entry.origin, default: [:]][entry.client_version] = Int(entry.version.rawValue)
        }
        var recordings: [Int: [Upload]] = [:]
        var previous: [ClientFileID: Int] = [:]
        for upload in uploads {
            let base = Int(upload.base.rawValue)
            let version = max(base, previous[upload.client] ?? 0)
            if server_log[base..<version].allSatisfy({ $0.origin == upload.client }) {
                recordings[version, default: []].append(upload)
            }
            previous[upload.client] = versions[upload.client]?[upload.client_version]
        }
        return recordings
    }
}

extension ObjectGraph {
    /// Applies one changeset by its bytes.
    @discardableResult
    mutating func apply(_ changeset: [UInt8]) throws -> StateChanges {
        var arena = ChangesetArena()
        let number = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: 2))
        return try apply(number, of: arena)
    }

    /// The canonical text.
    var json: String {
        get throws { String(decoding: try canonicalJSON(), as: UTF8.self) }
    }
}
