import AnabranchCore
import AnabranchHistory
import AnabranchServer
import AnabranchTestClient
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchSimperiumWire

/// Clients of this wire and of Realm's on one file, cut off and restarted at random: at rest, all have what the server
/// has.
@Suite(.timeLimit(.minutes(30))) struct WorldTests {
    /// `ANABRANCH_SEED` and `ANABRANCH_COUNT` choose others.
    @Test(arguments: [BucketForm.flat, .typed]) func allAgreeAtRest(form: BucketForm) async throws {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        let count = environment["ANABRANCH_COUNT"].flatMap(UInt64.init) ?? 30
        for seed in first..<first + count {
            var world = try World(seed: seed, form)
            try await world.run()
            guard let problem = world.problem else { continue }
            Issue.record(
                """
                seed \(seed), \(form): \(problem)
                \(world.events.joined(separator: "\n"))
                again: ANABRANCH_SEED=\(seed) ANABRANCH_COUNT=1 scripts/check --filter WorldTests
                """)
            return
        }
    }
}

/// One run.
private struct World {
    private let disk: WireRig.Disk
    private let form: BucketForm
    private var random: SeededRandom
    private let clients: [ModelClient]
    private var user = ""
    private var token = ""
    /// The first thing that is not as it should be.
    private(set) var problem: String?
    private(set) var events: [String] = []

    private static let keys = ["k0", "k1", "k2"]

    init(seed: UInt64, _ form: BucketForm) throws {
        disk = try WireRig.Disk()
        self.form = form
        random = SeededRandom(scrambling: seed)
        clients = [
            ModelClient(.node, name: "node-a"), ModelClient(.node, name: "node-b"),
            ModelClient(.android, name: "android-c"), ModelClient(.ios, name: "ios-d"),
        ]
    }

    mutating func run() async throws {
        var world = self
        let runs = 1 + world.random.below(3)
        for number in 1...runs {
            let heals = world.random.isOne(in: 2), before = world, form = form
            world = try await WireRig.run(on: disk) { settings in
                settings.apps[WireRig.app]?.otherBuckets?.form = form
                settings.healDelay = heals ? .milliseconds(5) : .seconds(3_600)
            } _: { rig in
                var world = before
                try await world.live(with: rig, isLast: number == runs)
                return world
            }
            guard world.problem == nil else { break }
        }
        self = world
    }

    private var realmClient: TestClient?

    private mutating func live(with rig: WireRig, isLast: Bool) async throws {
        events.append("the server runs")
        let isFirst = token.isEmpty
        if isFirst {
            let login = try await rig.logIn()
            (token, user) = (login.token, login.user)
            realmClient = TestClient(app: WireRig.app, partition: SimperiumWire.partition(of: user))
        }
        guard let realm = realmClient else { return }
        try await realm.connect(to: "ws://127.0.0.1:\(rig.port)", token: "any")
        if isFirst, form == .typed {
            try await realm.write { tx in try Self.addClass(to: tx) }
            try await realm.upload()
        }
        for _ in 0..<10 + random.below(30) {
            try await step(rig, realm)
            if let failure = clients.lazy.flatMap(\.failures).first { return problem = failure }
        }
        if isLast { try await rest(rig, realm) }
        for client in clients { await client.cut() }
        await realm.disconnect()
    }

    /// The class of the form `typed`.
    private static func addClass(to tx: WriteTransaction) throws {
        try tx.addEmbeddedClass("inner")
        try tx.addColumn("x", .int, to: "inner")
        try tx.addClass("note", key: "_id", .string)
        try tx.addColumn("t", .string, to: "note")
        try tx.addColumn("n", .int, isNullable: true, to: "note")
        try tx.addColumn("o", .int, collection: .dictionary, to: "note")
        try tx.addColumn("l", .int, collection: .list, to: "note")
        try tx.addLink("e", to: "inner", of: "note")
        try tx.addLink("k", to: "note", of: "note")
    }

    /// What a client of Realm's wire does to an object of that class.
    private static func write(_ number: Int, to object: DynamicObject, in tx: WriteTransaction) throws {
        let value = Payload.int(Int64(number))
        switch number % 7 {
        case 0: try object.set("t", to: .string(Array("r\(number)".utf8)))
        case 1: try object.value("n") == .null ? object.set("n", to: value) : object.add(3, to: "n")
        case 2: try object.list("l").insert(value, at: number % (object.list("l").count + 1))
        case 3: if try object.list("l").count > 0 { try object.list("l").remove(at: 0) }
        case 4: try object.dictionary("o").set(value, for: number % 2 == 0 ? "a" : "b%2Ec")
        case 5: try (object.object("e") ?? object.createObject("e")).add(1, to: "x")
        default: try object.set("k", to: tx.object("note", key: "k0")?.link ?? .null)
        }
    }

    private mutating func step(_ rig: WireRig, _ realm: TestClient) async throws {
        let client = random.pick(clients), key = random.pick(Self.keys)
        switch random.below(12) {
        case 0:
            events.append("\(client.name) is cut off")
            await client.cut()
            if random.isOne(in: 3) { client.fallBehind() }
        case 1...2:
            events.append("\(client.name) connects")
            try await client.connect(rig, token)
        case 3:
            events.append("\(client.name) deletes \(key)")
            try await client.delete(key)
        case 4...7:
            let body = edited(client.copies[key])
            events.append("\(client.name) has \(key) = \(JSONValue.object(body).encoded)")
            try await client.edit(key, body)
        case 8...9:
            events.append("\(client.name) reads")
            if client.isConnected { try await client.read() }
        case 10:
            let number = random.below(100), text = "r\(number)", isDeletion = random.isOne(in: 4), form = form
            events.append("realm \(isDeletion ? "deletes" : "writes \(text) to") \(key)")
            try await realm.write { tx in
                try form.addClass("note", tx)
                if isDeletion, let object = try tx.object("note", key: PrimaryKey(stringLiteral: key)) {
                    return try tx.delete(object)
                }
                let object = try tx.create("note", key: PrimaryKey(stringLiteral: key))
                guard form == .flat else { return try Self.write(number, to: object, in: tx) }
                try object.dictionary(BucketForm.body).set(.string(Array(text.utf8)), for: "t")
                try object.dictionary(BucketForm.body).set(.int(7), for: "n")
            }
        default:
            events.append("realm syncs")
            try await realm.upload()
            if random.isOne(in: 2) { try await realm.download() }
        }
    }

    private mutating func edited(_ body: EntityBody?) -> EntityBody {
        var body = body ?? [:]
        switch random.below(form == .flat ? 5 : 8) {
        case 5: body["l"] = .array(Array((body["l"]?.array ?? []).suffix(4)) + [.integer(Int64(random.below(9)))])
        case 6: body["e"] = .object(["x": .integer(Int64(random.below(9)))])
        case 7: body["e"] = nil
        case 0: body["n"] = .integer(Int64(random.below(5)))
        case 1: body["o"] = .object([JSONName(random.pick(["a", "b.c", "$d"])): .integer(Int64(random.below(3)))])
        case 2 where body["o"] != nil: body["o"] = nil
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

    /// Lets everybody come to rest, and compares.
    private mutating func rest(_ rig: WireRig, _ realm: TestClient) async throws {
        events.append("all come to rest")
        for client in clients { try await client.connect(rig, token) }
        try await realm.upload()
        // Nobody waits for a time that may be too short: it is over when all agree, or have not for long.
        for round in 0..<500 {
            for client in clients { try await client.read() }
            if let failure = clients.lazy.flatMap(\.failures).first { return problem = failure }
            try await realm.download()
            problem = try await disagreement(rig, realm)
            if problem == nil, round > 0, !clients.contains(where: \.isBusy) { return }
        }
        problem = problem ?? "somebody is busy: \(clients.filter(\.isBusy).map(\.name))"
    }

    private func disagreement(_ rig: WireRig, _ realm: TestClient) async throws -> String? {
        let file = try rig.wire.file(of: user, app: WireRig.app)
        let entities = try await file.read { reader -> [String: ModelClient.Ghost] in
            guard let bucket = try reader.records.bucket(named: "note") else { return [:] }
            var entities: [String: ModelClient.Ghost] = [:]
            for key in Self.keys {
                guard let row = try reader.records.entity(key, of: bucket) else { continue }
                let body = try reader.graph.entity(key, of: bucket)
                // Otherwise a ghost that nobody has.
                if let body = body ?? (row.isDeleted ? nil : [:]) {
                    entities[key] = ModelClient.Ghost(version: Int64(row.version), body: body)
                }
            }
            return entities
        }
        let form = form
        let bodies = try await realm.read { tx -> [String: EntityBody] in
            let bucket = Bucket(number: 1, name: "note", form: form, className: Array("note".utf8))
            var bodies: [String: EntityBody] = [:]
            for key in Self.keys { bodies[key] = try tx.state.entity(key, of: bucket) }
            return bodies
        }
        if bodies != entities.mapValues(\.body) { return "realm has \(bodies), the server \(entities)" }
        for client in clients where client.ghosts != entities {
            return "\(client.name) has \(client.ghosts), the server \(entities)"
        }
        return nil
    }
}
