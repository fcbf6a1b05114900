import Synchronization

/// Does one thing again and again with a pause between, like a user who waits for the answer, and notes the time that
/// each took.
final class ClosedLoop: Sendable {
    struct Sample: Sendable {
        var start: ContinuousClock.Instant
        var duration: Duration
        var hasFailed: Bool
    }

    private static let pause = Duration.milliseconds(50)

    private let samples = Mutex<[Sample]>([])
    private let isEnding = Atomic(false)

    /// Repeats until `end` is called. An operation that is under way then is still completed.
    func run(_ operation: @Sendable () async throws -> Void) async {
        while !isEnding.load(ordering: .relaxed) {
            let start = ContinuousClock.now
            var hasFailed = false
            do { try await operation() } catch { hasFailed = true }
            let sample = Sample(start: start, duration: .now - start, hasFailed: hasFailed)
            samples.withLock { $0.append(sample) }
            try? await Task.sleep(for: Self.pause)
        }
    }

    func end() { isEnding.store(true, ordering: .relaxed) }

    /// The operations that began within this time.
    func samples(in time: Range<ContinuousClock.Instant>) -> [Sample] {
        samples.withLock { $0.filter { time.contains($0.start) } }
    }
}

/// The three parts of a run, one after the other.
struct LoadPhases: Sendable {
    var alone: Range<ContinuousClock.Instant>
    var during: Range<ContinuousClock.Instant>
    var after: Range<ContinuousClock.Instant>
}

/// The time that something took before, during and after a load.
struct PhaseFigures: Encodable, Equatable {
    var alone: Percentiles
    var during: Percentiles
    var after: Percentiles
    /// The number of failures in all.
    var failures: Int

    /// The worst figure of all loops, part by part: an average would hide a neighbour that has to wait.
    init(_ loops: [ClosedLoop], _ phases: LoadPhases) {
        func worst(_ phase: Range<ContinuousClock.Instant>) -> Percentiles {
            let each = loops.map { Percentiles($0.samples(in: phase).map(\.duration)) }
            return each.max { ($0.p99 ?? 0) < ($1.p99 ?? 0) } ?? Percentiles([])
        }
        (alone, during, after) = (worst(phases.alone), worst(phases.during), worst(phases.after))
        let all = phases.alone.lowerBound..<phases.after.upperBound
        failures = loops.reduce(0) { $0 + $1.samples(in: all).count(where: \.hasFailed) }
    }
}
