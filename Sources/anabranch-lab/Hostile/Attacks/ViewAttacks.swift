import AnabranchCore
import AnabranchTesting

/// Attacks by writes of one user that go into the views of others, or stay in the user's own.
extension Attack {
    static let viewAttacks = [
        pictures, refusedKeys, refusedKeysOnce, refusedNumbers, sharedPictures,
    ]

    private static let everything = [AttackedObjects.className: "TRUEPREDICATE"]
    /// Queries for nothing that the attacker writes, and everything that the bystanders write.
    static let nothingOfHis = [
        AttackedObjects.className: "n == 1", LoadChangesets.className: "TRUEPREDICATE",
    ]

    private static let pictures = Attack(
        name: "pictures", summary: "one transaction of 20 texts of 1 MB, while 30 clients are there and confirm",
        counts: ["objects": 20, "kilobytes": 1_000, "clients": 30]
    ) { run in
        try await sendPictures(run)
    }

    private static let sharedPictures = Attack(
        name: "pictures-of-100", summary: "one transaction of 12 texts of 1 MB, while 100 clients are there",
        counts: ["objects": 12, "kilobytes": 1_000, "clients": 100]
    ) { run in
        let costs = try await sendPictures(run)
        run.report.bound("written", costs.map { $0.writtenBytes / 1e6 }, atMost: 40, "MB")
    }

    @discardableResult
    private static func sendPictures(_ run: AttackRun) async throws -> AttackCosts? {
        let attacker = try await run.client(of: run.user(of: .flexible))
        try await attacker.store([AttackedObjects.schema])
        let set = try await attacker.subscribe(everything).version
        _ = try await attacker.wait { $0.isAnswered(set) }
        let audience = try await Audience(run.count("clients"), of: run, asking: everything)
        run.tell("\(audience.clients.count) clients are there")
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: run.count("kilobytes") * 1_000)
        let changeset = AttackedObjects.creating(0..<run.count("objects"), "t", .string(text))
        try await run.measure {
            defer { audience.judge(run.report) }
            let time = try await attacker.store([changeset])
            run.report.figure("acknowledged", time.inMilliseconds, "ms")
            try await audience.wait(for: 1)
        }
        return run.attackCosts
    }

    // MARK: Refused objects

    private static let refusedKeys = Attack(
        name: "refused-keys",
        summary: "4 UPLOADs at once of 9,000 objects each that do not match, with keys of 4 KB that JSON has to escape",
        counts: ["objects": 9_000, "uploads": 4]
    ) { run in
        // No commits of others concern the view, so that all of these are integrated.
        try await sendRefusedKeys(run, asking: [AttackedObjects.className: "n == 1"])
    }

    private static let refusedKeysOnce = Attack(
        name: "refused-keys-once", summary: "an UPLOAD of 1,000 of these objects, of which nothing is ever confirmed",
        counts: ["objects": 1_000, "uploads": 1]
    ) { run in
        try await sendRefusedKeys(run, asking: nothingOfHis)
    }

    private static let refusedNumbers = Attack(
        name: "refused-numbers",
        summary: "an UPLOAD of 100,000 objects with numbers as keys that do not match, of which nothing is confirmed",
        counts: ["objects": 100_000]
    ) { run in
        let attacker = try await unconfirming(run, AttackedObjects.schema, asking: nothingOfHis)
        let changeset = AttackedObjects.creating(0..<run.count("objects"))
        try await run.measure { try await attacker.store([changeset]) }
        await recordRejections(of: attacker, run)
    }

    private static func sendRefusedKeys(_ run: AttackRun, asking predicates: [String: String]) async throws {
        let name = AttackedObjects.className
        let schema = ChangesetWriter([.addTable(name, .topLevel, key: "_id", .string), .addColumn(name, "n")]).bytes
        let attacker = try await unconfirming(run, schema, asking: predicates)
        let changesets = (0..<run.count("uploads")).map { upload in
            var changeset = ChangesetWriter()
            for number in 0..<run.count("objects") {
                let end = Array("\(upload)-\(number)".utf8)
                let key = [UInt8](repeating: 1, count: 4_096 - end.count) + end
                changeset.write(.createObject(ObjectName(className: name, key: .string(key))))
            }
            return changeset.bytes
        }
        try await run.measure {
            for changeset in changesets.dropLast() { await attacker.upload([changeset]) }
            try await attacker.store(Array(changesets.suffix(1)))
        }
        await recordRejections(of: attacker, run)
    }

    /// An attacker that sees nothing of its own writes, and never confirms what it has received.
    private static func unconfirming(
        _ run: AttackRun, _ schema: [UInt8], asking predicates: [String: String]
    ) async throws -> LoadClient {
        let attacker = try await run.client(of: run.user(of: .flexible))
        try await attacker.store([schema])
        await attacker.stopConfirming()
        let set = try await attacker.subscribe(predicates).version
        _ = try await attacker.wait { $0.isAnswered(set) }
        return attacker
    }

    private static func recordRejections(of attacker: LoadClient, _ run: AttackRun) async {
        run.report.figure("rejections", Double(await attacker.rejectionCount))
    }
}
