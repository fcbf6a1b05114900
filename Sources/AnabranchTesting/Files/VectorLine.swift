package import AnabranchCore
import Foundation

/// A line of a vector file: a scenario of several replicas around a server, or a single merge.
package enum VectorLine: Decodable, Sendable {
    case scenario(Scenario)
    case merge(MergeCase)

    private enum Key: CodingKey {
        case merges
    }

    package init(from decoder: any Decoder) throws {
        if try decoder.container(keyedBy: Key.self).contains(.merges) {
            self = .scenario(try Scenario(from: decoder))
        } else {
            self = .merge(try MergeCase(from: decoder))
        }
    }

    /// Calls `body` with the number of each line of a file, from 1, and its content.
    package static func forEach(in path: String, body: (Int, VectorLine) throws -> Void) throws {
        try JSONLines.forEach(in: path, as: VectorLine.self) { number, line, text in
            guard case .scenario(var scenario) = line else { return try body(number, line) }
            scenario.state = Scenario.recordedState(in: text)
            try body(number, .scenario(scenario))
        }
    }
}

/// Random transactions of several replicas and their results, as the reference recorded them.
package struct Scenario: Decodable, Sendable {
    package struct Upload: Decodable, Sendable {
        package var client: ClientFileID
        package var client_version: ClientVersion
        package var base: ServerVersion
        package var timestamp: ChangesetTime
        package var hex: String
    }

    package struct LogEntry: Decodable, Sendable {
        package var version: ServerVersion
        package var origin: ClientFileID
        package var client_version: ClientVersion
        package var timestamp: ChangesetTime
        package var hex: String
    }

    package var seed: UInt64?
    package var profile: String?
    /// False if the reference's replicas ended in different states.
    package var converged: Bool?
    /// The error with which the reference itself refused something; its log ends there.
    package var failure: String?
    /// The uploads, in the order in which the server integrated them.
    package var uploads: [Upload]
    package var merges: [MergeCase]
    package var server_log: [LogEntry]
    /// The canonical text of the state in which all replicas ended.
    package var state: [UInt8]?

    private enum CodingKeys: CodingKey {
        case seed, profile, converged, failure, uploads, merges, server_log
    }

    /// The bytes of a line's last member, exactly as recorded.
    fileprivate static func recordedState(in line: Data) -> [UInt8]? {
        guard let mark = line.range(of: Data(#","state":"#.utf8)) else { return nil }
        return Array(line[mark.upperBound...].dropLast())
    }
}
