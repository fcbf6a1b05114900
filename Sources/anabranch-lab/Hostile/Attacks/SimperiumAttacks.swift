import AnabranchCore
import AnabranchTestClient
import AnabranchTesting
import Foundation
import NIOPosix
import Synchronization

/// Attacks by a user of Simperium's wire. The bystanders are users of Realm's; another user of Simperium's writes as
/// well, alone first and then during the attack.
extension Attack {
    static let simperiumAttacks = [openings, growingTexts, doublingDiffs, madeUpMarks, manyChanges, manyEntries]

    private static var plan: Plan {
        var plan = Plan()
        plan.attackedPlaces = []
        plan.server.servesSimperium = true
        return plan
    }

    /// For attacks that send 100 MB or more.
    private static var longPlan: Plan {
        var plan = plan
        plan.cutOffSeconds = 240
        return plan
    }

    private static let openings = Attack(
        name: "simperium-inits", summary: "a connection opens 10,000 channels, and another when it is closed",
        counts: ["channels": 10_000], plan: plan
    ) { run in
        let neighbour = try await SimperiumNeighbour(run), user = try await run.simperiumUser()
        try await neighbour.measure(run) {
            var answers = CodeCounts(), closings = CodeCounts(), number = 0
            while number < run.count("channels") {
                let client = try await run.simperiumClient("attacker", of: user)
                do {
                    while number < run.count("channels") {
                        number += 1
                        answers.add(try await client.tryOpen("b\(number)", channel: number))
                    }
                } catch { closings.add(client.closingCode) }
                await client.close()
            }
            answers.write("channels", to: run.report)
            closings.write("connections_closed", to: run.report)
            // A connection has 100 channels, and 300 openings a minute.
            run.report.bound(
                "channels_refused", Double(answers.refusedCount), atLeast: Double(run.count("channels")) / 2)
        }
    }

    private static let growingTexts = Attack(
        name: "simperium-text", summary: "small edits make a text grow, to 100 MB if they are let",
        counts: ["edits": 1_600], plan: longPlan
    ) { run in
        let neighbour = try await SimperiumNeighbour(run), writer = try await run.simperiumWriter("attacker")
        let piece = String(repeating: "x", count: 64 << 10)
        try await neighbour.measure(run) {
            var length = 0, answers = CodeCounts()
            for _ in 0..<run.count("edits") {
                let kept = length > 0 ? "=\(length)\\t" : ""
                let code = try await writer.edit("\(kept)+\(piece)").code
                if code == nil { length += piece.utf8.count }
                answers.add(code)
            }
            run.report.bound("text", Double(length) / 1e6, atMost: 1.1, "MB")
            answers.write("edits", to: run.report)
        }
    }

    private static let doublingDiffs = Attack(
        name: "simperium-diffs", summary: "each edit inserts as much as there is, on ever older versions",
        counts: ["edits": 300], plan: longPlan
    ) { run in
        let neighbour = try await SimperiumNeighbour(run), writer = try await run.simperiumWriter("attacker")
        try await neighbour.measure(run) {
            var length = 1, answers = CodeCounts(), oldAnswers = CodeCounts()
            try await writer.edit("+x")
            for number in 0..<run.count("edits") {
                let text = String(repeating: "y", count: min(length, 1 << 20))
                let code = try await writer.edit("=\(length)\\t+\(text)").code
                answers.add(code)
                if code == nil {
                    length += text.utf8.count
                } else {
                    // A small one, on a version that is far behind.
                    let oldCode = try await writer.edit("=1\\t+\(number)", from: 2).code
                    oldAnswers.add(oldCode)
                    if oldCode == nil { length += "\(number)".utf8.count }
                }
            }
            answers.write("edits", to: run.report)
            oldAnswers.write("old_edits", to: run.report)
            run.report.bound("edits_refused", Double(answers.refusedCount), atLeast: Double(run.count("edits")) - 30)
        }
    }

    private static let madeUpMarks = Attack(
        name: "simperium-marks", summary: "5,000 pages of a listing by marks that nobody has given out",
        counts: ["pages": 5_000, "entities": 2_000], plan: plan
    ) { run in
        let neighbour = try await SimperiumNeighbour(run), writer = try await run.simperiumWriter("attacker")
        for number in 0..<run.count("entities") { try await writer.make("entity-\(number)", "") }
        let page = try await writer.client.ask("0:i:1:::10", .beginning("0:i:")).text
        guard let mark = page.firstMatch(of: /"mark":"(\w+)"/)?.output.1 else { throw LoadError("no mark: \(page)") }
        try await neighbour.measure(run) {
            var random = SeededRandom(seed: 1), listed = 0
            for _ in 0..<run.count("pages") {
                var digits = Array(mark.utf8)
                for _ in 0..<4 { digits[random.below(digits.count)] = random.pick(Array("0123456789abcdef".utf8)) }
                let offset = random.below(3) == 0 ? random.below(run.count("entities")) : 0
                let page = try await writer.client.ask(
                    "0:i:1:\(String(decoding: digits, as: UTF8.self)):\(offset):10", .beginning("0:i:"))
                if page.text.hasPrefix("0:i:{\"current\":") { listed += 1 }
            }
            // None is refused: a mark that nobody has given out begins a listing.
            run.report.bound("pages_listed", Double(listed), atLeast: Double(run.count("pages")))
        }
    }

    private static let manyChanges = Attack(
        name: "simperium-ccids", summary: "1,000 changes a second, each with a ccid of its own, from one user",
        counts: ["seconds": 20], plan: plan
    ) { run in
        let neighbour = try await SimperiumNeighbour(run), user = try await run.simperiumUser()
        try await neighbour.measure(run) {
            let end = ContinuousClock.now + .seconds(run.count("seconds"))
            var sent = 0, closings = CodeCounts()
            while ContinuousClock.now < end {
                let client = try await run.simperiumClient("attacker", of: user)
                try await client.open("note")
                while ContinuousClock.now < end, !client.isClosed {
                    for _ in 0..<10 {
                        sent += 1
                        client.send(
                            "0:c:{\"o\":\"M\",\"id\":\"k\(sent % 50)\",\"ccid\":\"c-\(sent)\",\"d\":{\"n\":\(sent)}}")
                    }
                    try await Task.sleep(for: .milliseconds(10))
                }
                if client.isClosed { closings.add(client.closingCode) }
                await client.close()
            }
            run.report.figure("changes_sent", Double(sent))
            closings.write("connections_closed", to: run.report)
        }
    }
}

extension Attack {
    private static let manyEntries = Attack(
        name: "simperium-entries", summary: "two Realm clients change an entity of 4 MB 2,000 times in one UPLOAD",
        counts: ["changesets": 2_000, "elements": 450_000], plan: plan
    ) { run in
        let neighbour = try await SimperiumNeighbour(run)
        let entity = ObjectName(className: "note", key: .string(Array("large".utf8)))
        var devices: [LoadClient] = []
        for _ in 0..<2 {
            let user = try await run.simperiumUser(), client = try await run.simperiumClient("attacker", of: user)
            try await client.open("note")
            try await SimperiumWriter(client, key: "k").make("")
            let device = try await run.client(of: run.user(of: .partitions), partition: user.partition)
            try await device.catchUp()
            let list = "[\(repeatElement("1234567", count: run.count("elements")).joined(separator: ","))]"
            var changeset = ChangesetWriter([.createObject(entity)])
            changeset.write(
                .update(FieldPath(object: entity, field: "nested", path: ["l"]), .string(Array(list.utf8))))
            try await device.store([changeset.bytes])
            devices.append(device)
        }
        let changesets = (0..<run.count("changesets")).map { number in
            let place = FieldPath(object: entity, field: "body", path: ["n"])
            return ChangesetWriter([.update(place, .int(Int64(number)))]).bytes
        }
        try await neighbour.measure(run) { [devices] in
            try await withThrowingTaskGroup { group in
                for device in devices { group.addTask { _ = try await device.store(changesets) } }
                try await group.waitForAll()
            }
        }
    }
}

/// How often the server has taken something, and how often it has refused it with which code.
private struct CodeCounts {
    private var counts: [Int?: Int] = [:]

    mutating func add(_ code: Int?) { counts[code, default: 0] += 1 }

    var refusedCount: Int { counts.reduce(0) { $0 + ($1.key == nil ? 0 : $1.value) } }

    func write(_ name: String, to report: AttackReport) {
        for (code, count) in counts.sorted(by: { $0.key ?? 0 < $1.key ?? 0 }) {
            report.figure("\(name)_\(code.map(String.init) ?? "without_code")", Double(count))
        }
    }
}

extension AttackRun {
    /// A new user of the app that serves Simperium's clients.
    fileprivate func simperiumUser() async throws -> SimperiumUser {
        try await SimperiumUser(
            "u\(UInt32.random(in: 0 ... .max))@example.com", of: AttackedApp.partitions.rawValue, on: target, eventLoops
        )
    }

    fileprivate func simperiumClient(_ name: String, of user: SimperiumUser) async throws -> SimperiumClient {
        try await SimperiumClient(name, of: user, to: target, on: eventLoops.next(), traffic: traffic)
    }

    /// A new user with a channel and an entity.
    fileprivate func simperiumWriter(_ name: String) async throws -> SimperiumWriter {
        let client = try await simperiumClient(name, of: simperiumUser())
        try await client.open("note")
        let writer = SimperiumWriter(client, key: "k")
        try await writer.make("")
        return writer
    }
}

/// Another user of Simperium's wire, who edits a note and waits for the echo, again and again.
private struct SimperiumNeighbour {
    private let writer: SimperiumWriter

    init(_ run: AttackRun) async throws { writer = try await run.simperiumWriter("neighbour") }

    /// Measures the neighbour alone and during an attack.
    func measure(_ run: AttackRun, _ attack: @escaping @Sendable () async throws -> Void) async throws {
        let alone = try await times { times in times.count < 100 }
        let isOver = Atomic(false)
        let during = Task { try await times { _ in !isOver.load(ordering: .relaxed) } }
        defer { isOver.store(true, ordering: .relaxed) }
        try await run.measure(attack)
        isOver.store(true, ordering: .relaxed)
        let before = Percentiles(alone), after = Percentiles(try await during.value)
        run.report.figure("neighbour_p50_alone", before.p50 ?? 0, "ms")
        run.report.figure("neighbour_p99_alone", before.p99 ?? 0, "ms")
        if let alone = before.p99, let p99 = after.p99 { run.report.figure("neighbour_p99_ratio", p99 / alone) }
        run.report.bound("neighbour_p50", after.p50 ?? .infinity, atMost: max(2 * (before.p50 ?? 0), 20), "ms")
        run.report.bound("neighbour_p99", after.p99 ?? .infinity, atMost: max(2 * (before.p99 ?? 0), 100), "ms")
    }

    private func times(while condition: ([Duration]) -> Bool) async throws -> [Duration] {
        var times: [Duration] = [], isLonger = false
        while condition(times) {
            let outcome = try await writer.edit(isLonger ? "-1" : "+x")
            times.append(outcome.acknowledged - outcome.sent)
            isLonger.toggle()
            try await Task.sleep(for: .milliseconds(20))
        }
        return times
    }
}
