import AnabranchCore
import AnabranchHistory
import AnabranchServer
import AnabranchTesting

@testable import AnabranchSimulation
@testable import AnabranchSimperiumWire

/// One file with clients of all kinds, a server that ends and comes back, or several that write the file at the same
/// time, and everything that may go wrong, as a seed decides. Each step is over before the next one begins, so that a
/// seed always gives the same world.
final class World {
    static let keys = ["k0", "k1", "k2", "k3", "k4"]
    /// The member that every entity has: one without it is a part of one.
    static let mark = "m"
    /// More than the changes, and the requests that they answered, are kept for.
    static let forgettingSeconds: UInt64 = 40 * 86_400

    let ledger: WorldLedger
    var random: SeededRandom
    let clock: WireRig.Clock
    let clients: [ModelClient]
    let devices: [RealmDevice]
    let trims: Bool
    /// The store as each server has it: what goes wrong there is nothing to the others.
    var stores: [SimulatedStore]
    var servers: [WorldServer] = []
    var heals = false
    var events: [String] { ledger.events }

    /// - Parameter serverCount: the number of servers that run at the same time.
    init(seed: UInt64, serverCount: Int = 1) {
        let content = InMemoryStore(isShared: serverCount > 1)
        stores = (0..<serverCount).map { _ in SimulatedStore(content, isInMemory: true) }
        let ledger = WorldLedger(), clock = WireRig.Clock(1_800_000_000)
        ledger.isOfOneServer = serverCount == 1
        var random = SeededRandom(scrambling: seed)
        clients = [
            ModelClient(.node, name: "node-a", pageSize: 2, ledger), ModelClient(.node, name: "node-b", ledger),
            ModelClient(.android, name: "android-c", pageSize: 2, ledger),
            ModelClient(.ios, name: "ios-d", pageSize: 3, ledger),
            ModelClient(.browser, name: "browser-e", tag: "page-1", pageSize: 2, ledger),
            ModelClient(.browser, name: "browser-e", tag: "page-2", ledger),
        ]
        var devices: [RealmDevice] = []
        for release in RealmDevice.releases where random.isOne(in: 2) {
            let hours = random.pick([0, 0, -5, -1, 1, 5])
            devices.append(RealmDevice(release, clock, secondsAhead: Double(hours) * 3_600, ledger))
        }
        trims = random.isOne(in: 2)
        // Echoes are told from deletions by the server that has told of the deletion before.
        ledger.isEternal = random.isOne(in: 4) && serverCount == 1
        (self.ledger, self.clock, self.random, self.devices) = (ledger, clock, random, devices)
    }

    func tell(_ event: String) { ledger.record(event: event) }

    /// - Returns: the first thing that is not as it should be; nil if there is none.
    func run() async -> String? {
        do {
            let runs = ledger.isEternal ? 1 : 1 + max(0, random.below(4) - 1)
            for number in 1...runs {
                try await live(isFirst: number == 1, isLast: number == runs)
                if let failure = ledger.failure { return failure }
            }
        } catch {
            return "\(error)"
        }
        return nil
    }

    private func live(isFirst: Bool, isLast: Bool) async throws {
        heals = random.isOne(in: 2)
        let hasDoor = isLast || !random.isOne(in: 3), heals = heals
        tell("a server begins\(hasDoor ? "" : ", for Realm clients")\(heals ? ", and heals" : "")")
        do {
            for store in stores {
                servers.append(
                    try await WorldServer(on: store, clock, hasDoor: hasDoor, trims: trims) { settings in
                        settings.healDelay = heals ? .zero : .seconds(3_600)
                        settings.door.changesMin = 1
                    })
            }
            for key in Self.keys.prefix(isFirst ? random.below(6) : 0) {
                try await write(.setText("a"), to: key, on: someServer())
            }
            if hasDoor {
                try await steps(isLast: isLast)
            } else {
                ledger.count(.doorMissed)
                ledger.beginHistory()
                for _ in 0..<4 { try await stepOfRealm(someServer()) }
            }
            if isLast, ledger.failure == nil { try await rest(someServer()) }
        } catch {
            await end()
            throw error
        }
        await end()
        ledger.count(.serverStopped)
    }

    private func end() async {
        for client in clients { await client.cut() }
        for device in devices { await device.disconnect() }
        for server in servers { await server.stop() }
        servers = []
        stores = stores.map { $0.reopened() }
    }

    private func someServer() -> WorldServer { servers.count == 1 ? servers[0] : random.pick(servers) }

    private func steps(isLast: Bool) async throws {
        for _ in 0..<20 + random.below(40) {
            try await step(someServer())
            if ledger.failure != nil { return }
        }
        if !isLast, random.isOne(in: 2) { await die() }
    }

    /// The server of a client ends while it stores a change, or when it has stored it and told nobody.
    private func die() async {
        let isKept = random.isOne(in: 2)
        guard let client = clients.first(where: \.isConnected),
            let place = servers.firstIndex(where: { $0.port == client.port })
        else { return }
        let key = random.pick(Self.keys), body = edited(client.kept.copies[key])
        tell("the server ends with a change of \(client.name) to \(key), which is \(isKept ? "stored" : "lost")")
        ledger.count(isKept ? .keptByServer : .lostWithServer)
        stores[place].plan(isKept ? .endsBehind : .ends, after: 0)
        await client.edit(key, body)
        await client.pump()
        try? await servers[place].finish()
    }

    // MARK: Steps

    /// Waits until the servers have done everything, and everybody has been sent what there is.
    /// - Parameter client: the only one that may have sent something; nil if it was somebody else.
    func settle(_ server: WorldServer, after client: ModelClient? = nil) async throws {
        guard client?.hasSpoken != false else { return }
        await client?.pump()
        // A server that had nothing more to do hears of what another has stored since.
        for _ in servers {
            for server in servers { try await server.finish() }
        }
        for client in clients { await client.pump() }
        for client in clients {
            let repetitions = client.watch.takeRepetitions()
            guard !repetitions.isEmpty, let places = try await server.file?.places(of: repetitions.map { $0.request })
            else { continue }
            for (request, position) in repetitions where places[request].map({ $0 > position }) ?? false {
                ledger.fail("\(client.name) is told of a repetition, not of what: \(request)")
            }
        }
    }

    func edited(_ body: EntityBody?) -> EntityBody {
        var body = body ?? [:]
        body[JSONName(Self.mark)] = 1
        switch random.below(5) {
        case 0: body["n"] = .integer(Int64(random.below(5)))
        case 1: body["o"] = .object([JSONName(random.pick(["a", "b.c", "$d"])): .integer(Int64(random.below(3)))])
        case 2: body[JSONName(random.isOne(in: 2) ? "o" : "n")] = nil
        default:
            var text = Array((body["t"]?.string ?? "").unicodeScalars)
            let place = random.upTo(text.count)
            if random.isOne(in: 3), place < text.count {
                text.removeSubrange(place..<min(text.count, place + 1 + random.below(3)))
            } else if text.count < 40 {
                text.insert(random.pick(Array("xyé🐙".unicodeScalars)), at: place)
            }
            body["t"] = .string(String(String.UnicodeScalarView(text)))
        }
        return body
    }

    /// One key is chosen most of the time, so that changes meet.
    func someKey() -> String { random.isOne(in: 2) ? "k0" : random.pick(Self.keys) }
}

extension SyncedBuckets {
    /// The changes that were accepted for requests, as far as they are kept.
    func places(of requests: [WorldLedger.Request]) async throws -> [WorldLedger.Request: ChangePlace] {
        try await read { reader -> [WorldLedger.Request: ChangePlace] in
            var places: [WorldLedger.Request: ChangePlace] = [:]
            guard let bucket = try reader.records.bucket(named: WorldServer.bucket) else { return places }
            for request in requests {
                if case .accepted(let place)? = try reader.records.request(request.ident, request.key, of: bucket) {
                    places[request] = place
                }
            }
            return places
        }
    }
}
