import AnabranchCore

/// A line of a vector file: a scenario of several replicas around a server, or a single merge.
enum VectorLine: Decodable {
    case scenario(Scenario)
    case merge(MergeCase)

    private enum Key: CodingKey {
        case merges
    }

    init(from decoder: any Decoder) throws {
        if try decoder.container(keyedBy: Key.self).contains(.merges) {
            self = .scenario(try Scenario(from: decoder))
        } else {
            self = .merge(try MergeCase(from: decoder))
        }
    }
}

/// What random transactions of several replicas did, as the reference recorded it.
struct Scenario: Decodable {
    struct Upload: Decodable {
        var client: ClientFileID
        var client_version: ClientVersion
        var base: ServerVersion
        var timestamp: ChangesetTime
        var hex: String
    }

    struct LogEntry: Decodable {
        var version: ServerVersion
        var origin: ClientFileID
        var client_version: ClientVersion
        var timestamp: ChangesetTime
        var hex: String
    }

    var seed: UInt64?
    /// False if the reference's replicas ended in different states.
    var converged: Bool?
    /// The reference itself refused something; its log ends there.
    var failure: String?
    /// In the order in which the server integrated them.
    var uploads: [Upload]
    var merges: [MergeCase]
    var server_log: [LogEntry]
}
