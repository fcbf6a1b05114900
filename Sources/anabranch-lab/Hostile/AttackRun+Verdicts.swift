import AnabranchTestClient
import Foundation
import Synchronization

/// The bounds of every attack: how long others wait, what the server needs, and if it can be ended.
extension AttackRun {
    private static let laterCommitCount = 11

    func finish() async throws {
        await bystanders?.end(patience: Self.patience)
        guard !server.wasEnded else { return }
        judgeBystanders()
        judgeMemory()
        if attack.plan.measuresLaterCommit { try await judgeLaterCommits() }
        await terminate()
    }

    /// Ends the server by SIGTERM.
    func terminate() async {
        tell("the server gets SIGTERM")
        let ending = await server.end()
        judgeWait("sigterm", ending.seconds, atMost: 1, "s")
        report.bound("exit_status", Double(ending.exitStatus), atMost: 0)
    }

    // MARK: Bystanders

    private func judgeBystanders() {
        guard let bystanders, let phases = state.withLock({ $0.measured?.phases }) else { return }
        let attacked = attack.plan.attackedPlaces, others = bystanders.names.subtracting(attacked)
        if !attacked.isEmpty { judge("app", bystanders.loops(attacked), phases, p99Max: 100, max: 1_000) }
        judge("others", bystanders.loops(others), phases, p99Max: 50, max: nil)
        report.bound("resets_of_others", Double(bystanders.resetCount), atMost: 0)
        let all = PhaseFigures(bystanders.loops(bystanders.names), phases)
        report.bound("failures_of_others", Double(all.failures), atMost: 0)
    }

    private func judge(_ name: String, _ loops: [ClosedLoop], _ phases: LoadPhases, p99Max: Double, max limit: Double?)
    {
        let figures = PhaseFigures(loops, phases)
        let longest = loops.flatMap { $0.samples(in: phases.during) }.map(\.duration).max()?.inRoundedMilliseconds
        report.figure("\(name)_writes_alone", Double(figures.alone.count))
        report.figure("\(name)_p50_alone", figures.alone.p50 ?? 0, "ms")
        report.figure("\(name)_p99_alone", figures.alone.p99 ?? 0, "ms")
        report.figure("\(name)_p50", figures.during.p50 ?? 0, "ms")
        judgeWait("\(name)_p99", figures.during.p99, atMost: max(2 * (figures.alone.p99 ?? 0), p99Max), "ms")
        if let limit {
            judgeWait("\(name)_max", longest, atMost: limit, "ms")
        } else {
            report.figure("\(name)_max", longest ?? 0, "ms")
        }
    }

    private func judgeWait(_ name: String, _ value: Double?, atMost limit: Double, _ unit: String) {
        if attack.plan.isJudgedByWaits {
            report.bound(name, value, atMost: limit, unit)
        } else {
            report.figure(name, value ?? 0, unit)
        }
    }

    // MARK: Memory

    private func judgeMemory() {
        guard let phases = state.withLock({ $0.measured?.phases }),
            let figures = sampler.figures(of: phases.during.lowerBound...phases.during.upperBound, operations: 0)
        else { return }
        report.figure("rss_before", figures.rssMib.before, "MiB")
        report.figure("rss_after", figures.rssMib.after, "MiB")
        report.bound(
            "rss_growth", figures.rssMib.peak - figures.rssMib.before, atMost: attack.plan.memoryGrowthBound, "MiB")
    }

    // MARK: Later commits

    /// Has another user write little, again and again, while the attackers are still there and nobody else writes.
    private func judgeLaterCommits() async throws {
        tell("somebody else writes")
        let cut = Task {
            try await Task.sleep(for: Self.patience)
            await disconnect()
        }
        defer { cut.cancel() }
        var written: [Int] = [], times: [Duration] = []
        do {
            let predicates = [LoadChangesets.className: "TRUEPREDICATE"]
            let client = try await client(of: user(of: .flexible), asking: predicates)
            let ident = await client.identNumber
            try await client.store([LoadChangesets.first(of: ident)])
            for number in 1...UInt64(Self.laterCommitCount) {
                try await Task.sleep(for: .milliseconds(100))
                let before = try sampler.snapshot().writtenBytes
                times.append(try await client.store([LoadChangesets.update(of: ident, number: number, bytes: 100)]))
                written.append(try sampler.snapshot().writtenBytes - before)
            }
        } catch {
            report.figure("later_commit_told", "\(error)")
        }
        // Now and then a commit has to write more, namely pages that many others need.
        let isWhole = written.count == Self.laterCommitCount
        let median = isWhole ? Double(written.sorted()[written.count / 2]) / 1e3 : nil
        report.bound("later_commit_written", median, atMost: 100, "KB")
        report.figure("later_commit_p50", Percentiles(times).p50 ?? 0, "ms")
    }
}
