import AnabranchCore
import AnabranchTestClient
import AnabranchTesting

/// Many honest devices at once, compared with as many of one partition.
extension Attack {
    static let stormAttacks = [storm, flushes]

    private static let storm = Attack(
        name: "storm", summary: "200 clients come back with 2 MB to catch up with and 5 UPLOADs each",
        counts: ["clients": 200, "kilobytes": 2_000, "uploads": 5], plan: Plan(cutOffSeconds: 120)
    ) { run in
        let departed = try await Storm(run, .partitions).prepare()
        let same = try await Storm(run, .flexible).prepare()
        try await run.measure { try await Storm(run, .flexible).bring(same) }
        let reference = try await run.costs { try await Storm(run, .partitions).bring(departed) }
        compare(run, with: reference, uploads: run.count("clients") * run.count("uploads"))
    }

    private static let flushes = Attack(
        name: "flushes", summary: "20 clients each send 20 UPLOADs, one after the other",
        counts: ["clients": 20, "kilobytes": 0, "uploads": 20]
    ) { run in
        let clients = try await Storm(run, .partitions).prepare()
        let same = try await Storm(run, .flexible).prepare()
        try await run.measure { try await Storm(run, .flexible).bring(same, isOneByOne: true) }
        let reference = try await run.costs { try await Storm(run, .partitions).bring(clients, isOneByOne: true) }
        compare(run, with: reference, uploads: run.count("clients") * run.count("uploads"))
    }

    private static func compare(_ run: AttackRun, with reference: AttackCosts, uploads: Int) {
        let report = run.report, costs = run.attackCosts
        reference.write(to: report, as: "partition")
        func ratio(_ value: KeyPath<AttackCosts, Double>) -> Double? {
            costs.map { $0[keyPath: value] / max(reference[keyPath: value], 1e-3) }
        }
        if run.count("kilobytes") > 0 {
            report.bound("time_ratio", ratio(\.seconds), atMost: 3)
            report.bound("cpu_ratio", ratio(\.cpuSeconds), atMost: 3)
            report.bound("written_ratio", ratio(\.writtenBytes), atMost: 3)
        }
        report.bound(
            "transactions_per_upload", costs?.transactions.map { $0 / Double(uploads) }, atMost: 0.25)
        report.figure("partition_transactions_per_upload", (reference.transactions ?? 0) / Double(uploads))
    }
}

/// The devices of one file.
private struct Storm {
    private static let className = "Entry"
    private let run: AttackRun
    private let app: AttackedApp

    init(_ run: AttackRun, _ app: AttackedApp) {
        self.run = run
        self.app = app
    }

    /// A device that is away, and the target of its user.
    typealias Device = (client: LoadClient, user: SyncTarget)

    /// Makes the devices: each has written something of its own, and is gone when the history is written.
    func prepare() async throws -> [Device] {
        let writer = try await run.client(of: run.user(of: app), partition: "storm")
        try await writer.store([schema])
        if app.isFlexible {
            let set = try await writer.subscribe(everything).version
            _ = try await writer.wait { $0.isAnswered(set) }
        }
        let devices = try await concurrentMap(0..<run.count("clients"), limit: 16) { _ in
            let user = try await run.user(of: app)
            let client = try await run.client(of: user, partition: "storm", asking: everything)
            try await client.store([creation(of: await client.identNumber)])
            await client.leave()
            return (client: client, user: user)
        }
        if run.count("kilobytes") > 0 {
            try await writer.store([creation(of: 0)])
            for (number, first) in stride(from: 0, to: run.count("kilobytes"), by: 250).enumerated() {
                let bytes = 1_000 * min(250, run.count("kilobytes") - first)
                try await writer.store([update(of: 0, number: UInt64(number), bytes: bytes)])
            }
        }
        await writer.leave()
        run.tell("\(devices.count) devices of \(app.rawValue) are away")
        return devices
    }

    /// Has all devices come back.
    ///
    /// - Parameter isOneByOne: true if each UPLOAD waits for the one before it; otherwise they follow IDENT at once.
    func bring(_ devices: [Device], isOneByOne: Bool = false) async throws {
        let uploads = run.count("uploads")
        let times = try await concurrentMap(devices, limit: devices.count) { client, user in
            let connection = try await run.connection(to: user), ident = await client.identNumber
            var times: [Duration] = []
            try await client.identify(on: connection)
            if isOneByOne { try await client.catchUp() }
            let start = ContinuousClock.now
            for number in 0..<uploads {
                let changeset = update(of: ident, number: UInt64(number), bytes: 100)
                if isOneByOne {
                    times.append(try await client.store([changeset]))
                } else {
                    await client.upload([changeset])
                }
            }
            let last = await client.uploadedVersion
            let acknowledged = try await client.wait { $0.isAcknowledged(last) }
            if !isOneByOne { times.append(acknowledged - start) }
            try await client.catchUp()
            return times
        }.flatMap(\.self)
        for client in devices.map(\.client) { await client.leave() }
        run.report.figure("\(app.rawValue)_acknowledged_p50", Percentiles(times).p50 ?? 0, "ms")
    }

    private var everything: [String: String] { [Self.className: "TRUEPREDICATE"] }

    private var schema: [UInt8] {
        ChangesetWriter([.addTable(Self.className), .addColumn(Self.className, "data", .binary)]).bytes
    }

    private func object(_ client: UInt64) -> ObjectName {
        ObjectName(className: Self.className, key: .int(Int64(client)))
    }

    private func creation(of client: UInt64) -> [UInt8] { ChangesetWriter([.createObject(object(client))]).bytes }

    private func update(of client: UInt64, number: UInt64, bytes: Int) -> [UInt8] {
        let data = LoadChangesets.bytes(of: client, number: number, count: bytes)
        return ChangesetWriter([.update(FieldPath(object: object(client), field: "data"), .binary(data))]).bytes
    }
}
