import Foundation

@testable import AnabranchCore

/// What a scenario of the vectors says about states and recording.
struct StateVector: Decodable, Sendable {
    struct Upload: Decodable, Sendable {
        var client: UInt64
        var client_version: UInt64
        var base: Int
        var hex: String
    }

    struct Entry: Decodable, Sendable {
        var version: Int
        var origin: UInt64
        var client_version: UInt64
        var hex: String
    }

    var seed: UInt64
    var profile: String
    var converged: Bool?
    var failure: String?
    var uploads: [Upload]
    var server_log: [Entry]
    /// The canonical text of the final state.
    private(set) var state: [UInt8] = []

    private enum CodingKeys: CodingKey {
        case seed, profile, converged, failure, uploads, server_log
    }

    var name: String { "\(profile) scenario \(seed)" }

    /// The scenarios that the reference finished with one state everywhere.
    static let all: [StateVector] = VectorFiles.rawLines(of: "scenarios.jsonl.zst").compactMap { line in
        guard var vector = try? JSONDecoder().decode(StateVector.self, from: line),
            let mark = line.range(of: Data(",\"state\":".utf8))
        else { return nil }
        // The state is the last member.
        vector.state = Array(line[mark.upperBound...].dropLast())
        return vector.failure == nil && vector.converged != false ? vector : nil
    }

    /// The uploads by the version of the log on whose state their client recorded them, where that is known: nobody
    /// else's entries lie between what the client had downloaded and what it had uploaded.
    var recordings: [Int: [Upload]] {
        var versions: [[UInt64]: Int] = [:]
        for entry in server_log { versions[[entry.origin, entry.client_version]] = entry.version }
        var recordings: [Int: [Upload]] = [:]
        var previous: [UInt64: Int] = [:]
        for upload in uploads {
            let version = max(upload.base, previous[upload.client] ?? 0)
            if server_log[upload.base..<version].allSatisfy({ $0.origin == upload.client }) {
                recordings[version, default: []].append(upload)
            }
            previous[upload.client] = versions[[upload.client, upload.client_version]]
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
