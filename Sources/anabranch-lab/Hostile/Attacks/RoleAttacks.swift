import AnabranchCore
import AnabranchTestClient
import Foundation

/// Attacks in which the rules of an app change while many clients are connected.
extension Attack {
    static let roleAttacks = [roleChange]

    private static let roleChange = Attack(
        name: "role-change", summary: "1,000 sessions get other rules: of 4,000 objects half leave, and half enter",
        counts: ["sessions": 1_000, "sessions-per-user": 20],
        plan: Plan(
            server: AttackedServer(
                rules: AttackedServer.rules(read: #"{"n": {"$lt": 2000}}"#),
                objects: AttackedObjects(count: 4_000)))
    ) { run in
        let audience = try await Audience(
            run.count("sessions"), perUser: run.count("sessions-per-user"), of: run,
            asking: [AttackedObjects.className: "TRUEPREDICATE"])
        run.tell("\(audience.clients.count) sessions are there")
        let folder = run.server.directory.appendingPathComponent(AttackedServer.exportName)
        try await run.measure {
            defer { audience.judge(run.report) }
            let rules = AttackedServer.rules(read: #"{"n": {"$gte": 2000}}"#)
            try AttackRun.write(rules, to: folder.appendingPathComponent(AttackedServer.rulesPath))
            try await audience.wait(for: 1)
            try await audience.settle()
        }
        let costs = run.attackCosts
        run.report.bound("transactions", costs?.transactions, atMost: 200)
        run.report.bound("written", costs.map { $0.writtenBytes / 1e6 }, atMost: 100, "MB")
    }
}
