import Foundation
import Testing

@testable import anabranch_lab

/// The built command attacks the built server, as little as it can.
@Suite(.serialized) struct AttackTests {
    private static func attack(_ arguments: String...) async throws -> LabProcess.Answer {
        try await LabProcess.run(["attack"] + arguments)
    }

    @Test func anAttackIsMeasuredAndJudged() async throws {
        let answer = try await Self.attack(
            "refusals", "--counts", "changesets=3", "--alone-seconds", "2", "--serve", LabProcess.server)
        // Whether bounds are kept depends on the machine, and whether all are named does not.
        let lines = answer.output.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        #expect(!lines.isEmpty, "\(answer.complaint)")
        #expect(lines.allSatisfy { $0.count >= 4 && $0[0] == "refusals" && ["figure", "verdict"].contains($0[1]) })
        let verdicts = lines.filter { $0[1] == "verdict" }
        #expect(
            Set(verdicts.map { $0[2] }) == [
                "app_p99", "app_max", "others_p99", "resets_of_others", "failures_of_others", "rss_growth",
                "later_commit_written", "sigterm", "exit_status",
            ])
        #expect(verdicts.allSatisfy { ["<=", ">="].contains($0[4]) && ["kept", "missed"].contains($0.last) })
        let missed = verdicts.filter { $0.last == "missed" }
        #expect(answer.status == (missed.isEmpty ? 0 : 1), "\(missed)")
        let figures = Dictionary(uniqueKeysWithValues: lines.filter { $0[1] == "figure" }.map { ($0[2], $0[3]) })
        #expect(figures["rejections"] == "3")
        #expect(Double(figures["attack_sent"] ?? "") ?? 0 > 0)
        #expect(Double(figures["app_writes_alone"] ?? "") ?? 0 > 0)
    }

    /// The parts that every attack of Simperium's wire prints: another user's waits, alone and during the attack, the
    /// memory, and the codes of the answers.
    @Test(
        arguments: [
            ("simperium-inits", "channels=310", ["channels_without_code", "channels_500", "connections_closed_1013"]),
            ("simperium-text", "edits=20", ["edits_without_code", "edits_413"]),
            ("simperium-diffs", "edits=30", ["edits_without_code", "edits_413", "old_edits_without_code"]),
            ("simperium-marks", "pages=20,entities=20", []), ("simperium-ccids", "seconds=1", ["changes_sent"]),
            ("simperium-entries", "changesets=20,elements=1000", []),
        ] as [(String, String, [String])])
    func attacksOfSimperiumsWireAreMeasured(name: String, counts: String, figures: [String]) async throws {
        let answer = try await Self.attack(
            name, "--counts", counts, "--alone-seconds", "0.2", "--serve", LabProcess.server)
        let lines = answer.output.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        let names = Set(lines.compactMap { $0.count > 3 ? $0[2] : nil })
        let all =
            figures + [
                "neighbour_p99_alone", "neighbour_p99", "neighbour_p99_ratio", "others_p99_alone", "others_p99",
                "rss_before", "rss_growth", "sigterm",
            ]
        #expect(names.isSuperset(of: all), "\(Set(all).subtracting(names)) \(answer.complaint)")
        #expect(!names.contains("app_p99"))
        #expect(!lines.contains { $0.count > 3 && $0[2] == "attacker_told" })
    }

    @Test func allAreListed() async throws {
        let answer = try await Self.attack("list")
        #expect(answer.status == 0)
        let names = answer.output.split(separator: "\n").compactMap { $0.split(separator: ":").first.map(String.init) }
        #expect(names == Attack.all.map(\.name))
        #expect(Set(names).count == names.count)
    }

    @Test(arguments: [
        (["none"], "There is no attack 'none': see anabranch-lab attack list."),
        (["refusals", "--counts", "objects=1"], "--counts: 'objects' is nothing that each of these attacks counts."),
        (["refusals", "--counts", "changesets"], "--counts: 'changesets' has to be like objects=100."),
        (["refusals", "--counts", "changesets=-1"], "--counts: 'changesets=-1' has to be like objects=100."),
        (["refusals", "--alone-seconds", "0"], "All numbers must be more than 0."),
    ])
    func mistakesAreNamed(arguments: [String], words: String) async throws {
        let answer = try await LabProcess.run(["attack"] + arguments)
        #expect(answer.status == 64)
        #expect(answer.complaint.contains(words), "\(answer.complaint)")
    }

    @Test func aBoundIsKeptOrMissed() {
        let report = AttackReport("none")
        report.bound("small", 1, atMost: 1)
        report.bound("large", 1, atLeast: 1)
        #expect(report.missedCount == 0)
        report.bound("small", 1.5, atMost: 1)
        report.bound("large", 0.5, atLeast: 1)
        report.bound("nothing", nil, atMost: 1)
        #expect(report.missedCount == 3)
    }

    @Test func whatBystandersCostIsTakenOff() {
        let alone = AttackCosts(seconds: 1, cpuSeconds: 0.5, writtenBytes: 1_000, transactions: 10)
        let all = AttackCosts(seconds: 9, cpuSeconds: 2, writtenBytes: 500, transactions: 25)
        let costs = all.without(20, of: alone, 10)
        #expect(costs.seconds == 9 && costs.cpuSeconds == 1 && costs.writtenBytes == 0 && costs.transactions == 5)
        #expect(all.without(20, of: nil, 0).transactions == 25)
    }
}
