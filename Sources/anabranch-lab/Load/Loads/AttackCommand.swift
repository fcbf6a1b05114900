import AnabranchCore
import AnabranchTesting
import ArgumentParser

struct AttackCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attack",
        abstract: "A few UPLOADs that cost the client little and the server much.",
        discussion: """
            empty: one UPLOAD of --count changesets without a byte. merge: --count Updates of a field against as many \
            AddIntegers of it, which all conflict. object: --count values of --megabytes in one dictionary, then 20 \
            AddIntegers of another field of the object. name: a class whose name has --megabytes, which the server \
            refuses. All but the last compress to almost nothing.

            Latencies: "prepared" (what makes the attack possible) and "answered" (the attack itself: acknowledged, or \
            refused, with the server's words in "refusal"). An attack without an answer ends after --patience. An \
            operation is an answer.

            EXAMPLES
              anabranch-lab load attack empty --count 3900000 --serve .build/release/anabranch
              anabranch-lab load attack merge --count 30000 --serve .build/release/anabranch
              anabranch-lab load attack object --count 8 --megabytes 15 --serve .build/release/anabranch
              anabranch-lab load attack name --megabytes 10 --serve .build/release/anabranch
            """)

    enum Kind: String, CaseIterable, ExpressibleByArgument {
        case empty, merge, object, name
    }

    @Argument(help: "Which one.")
    var kind: Kind

    @Option(help: "How many changesets, instructions or values.")
    var count = 1000

    @Option(help: "The size of a value or a name.")
    var megabytes = 1.0

    @Option(help: "How many seconds to wait for an answer.")
    var patience = 120.0

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard count > 0, megabytes > 0, patience > 0 else { throw ValidationError("All numbers must be more than 0.") }
    }

    func run() async throws {
        let numbers = ["count": Double(count), "megabytes": megabytes]
        try await options.run("attack \(kind.rawValue)", numbers) { run in
            let attacker = try await Attacker(run, of: "\(run.name)-attack", patience: .seconds(patience))
            try await run.measure {
                switch kind {
                case .empty: await attacker.upload(Array(repeating: [], count: count))
                case .merge: try await attacker.merge(count)
                case .object: await attacker.grow(count, megabytes)
                case .name: await attacker.upload([AttackChangesets.longName(megabytes)])
                }
                return await attacker.outcome
            }
        }
    }
}

/// A client that wants to do harm.
private actor Attacker {
    private let run: LoadRun
    private let client: LoadClient
    private let file: String
    private let patience: Duration
    private(set) var outcome = LoadOutcome(operations: 0, operation: "answer")

    /// Comes in, and makes an object.
    init(_ run: LoadRun, of file: String, patience: Duration) async throws {
        self.run = run
        self.file = file
        self.patience = patience
        client = try await run.connectedClient(of: file)
        let version = await client.upload([AttackChangesets.start]).version
        _ = try await client.wait { $0.isAcknowledged(version) }
    }

    /// Uploads as a device does whose clock stands at the beginning.
    ///
    /// - Returns: whether the server took it.
    @discardableResult
    func upload(_ changesets: [[UInt8]], as name: String = "answered") async -> Bool {
        let (version, sent) = await client.upload(changesets, timestamp: 1)
        return await waitForAnswer(to: version, sent: sent, of: client, as: name)
    }

    private func waitForAnswer(
        to version: ClientVersion, sent: ContinuousClock.Instant, of client: LoadClient, as name: String
    ) async -> Bool {
        let timer = Task { [patience, run] in
            try await Task.sleep(for: patience)
            run.report("no answer for \(patience)")
            await client.leave()
        }
        defer { timer.cancel() }
        do {
            let time = try await client.wait { $0.isAcknowledged(version) }
            outcome.latencies[name, default: []].append(time - sent)
            outcome.operations += 1
            return true
        } catch {
            outcome.latencies[name, default: []].append(.now - sent)
            let words = "\(error)"
            outcome.counts["refusal_bytes"] = Double(words.utf8.count)
            outcome.refusal = String(words.prefix(300))
            return false
        }
    }

    /// A device that was away brings Updates with early timestamps, made before the late AddIntegers that are there.
    func merge(_ count: Int) async throws {
        let device = try await run.connectedClient(of: file)
        await device.leave()
        let (version, sent) = await client.upload([AttackChangesets.additions(count)])
        guard await waitForAnswer(to: version, sent: sent, of: client, as: "prepared") else { return }
        let connection = run.connection(on: device.eventLoop)
        try await connection.open()
        let start = ContinuousClock.now
        try await device.identify(on: connection, uploading: [AttackChangesets.updates(count)], timestamp: 1)
        _ = await waitForAnswer(to: await device.uploadedVersion, sent: start, of: device, as: "answered")
    }

    func grow(_ count: Int, _ megabytes: Double) async {
        for number in 0..<count {
            let value = AttackChangesets.value(number, bytes: Int(megabytes * 1e6))
            guard await upload([value], as: "prepared") else { return }
        }
        for _ in 0..<20 {
            guard await upload([AttackChangesets.additions(1)]) else { return }
        }
    }
}

private enum AttackChangesets {
    private static let className = "Target"
    private static let object = ObjectName(className: className, key: .int(1))
    private static let field = FieldPath(object: object, field: "n")

    static var start: [UInt8] {
        ChangesetWriter([
            .addTable(className), .addColumn(className, "n"), .addColumn(className, "d", .binary, .dictionary),
            .createObject(object),
        ]).bytes
    }

    static func additions(_ count: Int) -> [UInt8] {
        ChangesetWriter(Array(repeating: .addInteger(field, 1), count: count)).bytes
    }

    static func updates(_ count: Int) -> [UInt8] {
        ChangesetWriter(Array(repeating: .update(field, .int(7)), count: count)).bytes
    }

    /// An entry of the dictionary, of zeros.
    static func value(_ number: Int, bytes: Int) -> [UInt8] {
        let place = FieldPath(object: object, field: "d", path: [.name("k\(number)")])
        return ChangesetWriter([.update(place, .binary([UInt8](repeating: 0, count: bytes)))]).bytes
    }

    static func longName(_ megabytes: Double) -> [UInt8] {
        ChangesetWriter([
            .createObject(ObjectName(className: String(repeating: "x", count: Int(megabytes * 1e6)), key: .int(1)))
        ]).bytes
    }
}
