import AnabranchCore

/// A line of a vector file: a scenario of several replicas around a server, or a single merge.
package enum VectorLine: Decodable {
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
}

/// What random transactions of several replicas did, as the reference recorded it.
package struct Scenario: Decodable {
    package struct Upload: Decodable {
        package var client: ClientFileID
        package var client_version: ClientVersion
        package var base: ServerVersion
        package var timestamp: ChangesetTime
        package var hex: String
    }

    package struct LogEntry: Decodable {
        package var version: ServerVersion
        package var origin: ClientFileID
        package var client_version: ClientVersion
        package var timestamp: ChangesetTime
        package var hex: String
    }

    package var seed: UInt64?
    /// False if the reference's replicas ended in different states.
    package var converged: Bool?
    /// The reference itself refused something; its log ends there.
    package var failure: String?
    /// In the order in which the server integrated them.
    package var uploads: [Upload]
    package var merges: [MergeCase]
    package var server_log: [LogEntry]
}
