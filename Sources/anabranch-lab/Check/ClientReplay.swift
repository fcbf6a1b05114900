import AnabranchCore
import AnabranchTesting

/// The content of a client's file: its own changes as it made them, and those of others as it merged them.
enum ClientReplay {
    static func state(of client: ClientFileID, in scenario: Scenario) throws -> ObjectGraph {
        var merged: [ServerVersion: String] = [:]
        for merge in scenario.merges where merge.at == client {
            for (input, output) in zip(merge.incoming, merge.incoming_after ?? []) {
                merged[ServerVersion(rawValue: input.version)] = output.hex
            }
        }
        var graph = ObjectGraph()
        var own = scenario.uploads.filter { $0.client == client }[...]
        for entry in scenario.server_log where entry.origin != client {
            // Everything that the client made before it knew the entry.
            while let next = own.first, next.base < entry.version {
                try graph.apply(next.hex)
                own.removeFirst()
            }
            try graph.apply(merged[entry.version] ?? entry.hex)
        }
        for upload in own { try graph.apply(upload.hex) }
        return graph
    }
}

extension ObjectGraph {
    /// Applies a transaction of a client.
    fileprivate mutating func apply(_ hex: String) throws {
        var arena = ChangesetArena()
        try apply(
            try arena.decode(try Hex.bytes(of: hex), version: 1, tag: OriginTag(timestamp: 0, ident: 0)), of: arena)
        _ = try eraseAsymmetricObjects()
    }
}
