import AnabranchCore
import AnabranchHistory

@testable import AnabranchSimperiumWire

extension World {
    /// How often everybody reads before it is taken for sure that they never come to rest.
    private static let roundsMax = 100

    /// Lets everybody come to rest, and compares.
    func rest(_ server: WorldServer) async throws {
        tell("all come to rest")
        for device in devices { try await device.sync(downloads: false, on: server.port) }
        try await settle(server)
        for client in clients {
            try await client.connect(to: server)
            try await settle(server, after: client)
        }
        var rounds = 0
        while clients.contains(where: { $0.isBusy || $0.hasUnread }) {
            rounds += 1
            guard rounds <= Self.roundsMax else {
                return ledger.fail("no rest: \(clients.filter { $0.isBusy || $0.hasUnread }.map(\.name))")
            }
            for client in clients {
                // The server may have closed the connection.
                if !client.isConnected {
                    try await client.connect(to: server)
                    try await settle(server, after: client)
                }
                await client.read()
                if rounds.isMultiple(of: 4) { await client.waitLong() }
                try await settle(server, after: client)
            }
            if ledger.failure != nil { return }
        }
        for device in devices { try await device.sync(downloads: true, on: server.port) }
        try await compare(server)
    }

    /// The entities of the server: the newest versions, and all older ones that it keeps.
    private struct Content: Sendable {
        var ghosts: [String: ModelClient.Ghost] = [:]
        var newest: [String: Int64] = [:]
        var bodies: [String: [Int64: EntityBody]] = [:]
        /// The newest step that is not kept, by the entity.
        var gaps: [String: Int64] = [:]
    }

    private func content(of server: WorldServer) async throws -> Content {
        try await server.file?.read { reader -> Content in
            var content = Content()
            guard let bucket = try reader.records.bucket(named: WorldServer.bucket) else { return content }
            for key in World.keys {
                guard let row = try reader.records.entity(key, of: bucket) else { continue }
                let newest = Int64(row.version)
                content.newest[key] = newest
                if let body = try reader.graph.entity(key, of: bucket) {
                    content.ghosts[key] = ModelClient.Ghost(version: newest, body: body)
                } else if !row.isDeleted {
                    // A ghost that nobody has.
                    content.ghosts[key] = ModelClient.Ghost(version: newest, body: [:])
                }
                for version in stride(from: newest, through: 1, by: -1) {
                    content.bodies[key, default: [:]][version] = try reader.entity(key, of: bucket, at: UInt64(version))
                    if try reader.records.version(UInt64(version), key, of: bucket) == nil {
                        content.gaps[key] = version
                        break
                    }
                }
            }
            return content
        } ?? Content()
    }

    private func compare(_ server: WorldServer) async throws {
        let content = try await content(of: server), ghosts = content.ghosts
        for device in devices {
            let bodies = try await device.bodies(of: Self.keys)
            if bodies != ghosts.mapValues(\.body) { ledger.fail("\(device.name) has \(bodies), the server \(ghosts)") }
        }
        for client in clients {
            if client.kept.ghosts != ghosts {
                ledger.fail("\(client.name) has \(client.kept.ghosts), the server \(ghosts)")
            }
            if heals, let key = client.leftBehind {
                let copy = client.kept.copies[key].map { JSONValue.object($0).encoded } ?? "nothing"
                ledger.fail("\(client.name) is left with \(key) = \(copy), the server has \(ghosts)")
            }
        }
        for (key, bodies) in content.bodies.sorted(by: { $0.key < $1.key }) {
            for (version, body) in bodies {
                let text = JSONValue.object(body).encoded
                if body[Self.mark] == nil { ledger.fail("\(key).\(version) is a part: \(text)") }
                if let known = ledger.bodies[key]?[version], known != body {
                    ledger.fail("\(key).\(version) is \(text), and was told as \(known)")
                }
            }
            if let gap = content.gaps[key], gap > 1, !isForgetful { ledger.fail("no step to \(key).\(gap)") }
        }
        for (key, bodies) in ledger.bodies {
            let told = bodies.keys.max() ?? 0
            if told > content.newest[key] ?? 0 { ledger.fail("\(key).\(told) was told, and is lost") }
        }
        // Whatever was told as accepted is kept as such.
        let kept = try await server.file?.places(of: Array(ledger.accepted.keys)) ?? [:]
        for (request, place) in ledger.accepted where kept[request] != place {
            ledger.fail("\(request) was accepted, and is \(kept[request].map { "\($0)" } ?? "forgotten")")
        }
    }

    /// True if the door has missed entries, or so much time has passed that versions may be missing.
    private var isForgetful: Bool { ledger.counts[.doorMissed] != nil || ledger.counts[.forgotten] != nil }
}
