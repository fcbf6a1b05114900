/// The sum of the findings of independent pieces of work.
package protocol RunTally: Sendable {
    init()
    mutating func add(_ other: Self)
    /// True if something was found that ends the run.
    var hasFailed: Bool { get }
}

extension RunTally {
    /// Adds up what the pieces of work find, `jobs` of them at a time, until all are done or one has failed.
    ///
    /// - Parameters:
    ///   - interval: the time between two reports.
    ///   - isStopped: whether to begin no further piece. Those that have begun are finished, so the sum is of all
    ///     pieces up to some number.
    ///   - onProgress: called with the sum so far and the time since the start.
    ///   - piece: does the piece with a number, from 0.
    package static func sum(
        of pieces: Int, jobs: Int, interval: Duration = .seconds(5), isStopped: () -> Bool = { false },
        onProgress: (Self, Duration) -> Void = { _, _ in }, piece: @escaping @Sendable (Int) throws -> Self
    ) async throws -> Self {
        try await withThrowingTaskGroup(of: Self.self) { group in
            let start = ContinuousClock.now
            var lastProgress = start
            var total = Self()
            for number in 0..<min(jobs, pieces) { group.addTask { try piece(number) } }
            var started = min(jobs, pieces)
            while let done = try await group.next() {
                total.add(done)
                if started < pieces, !total.hasFailed, !isStopped() {
                    group.addTask { [started] in try piece(started) }
                    started += 1
                }
                if ContinuousClock.now - lastProgress > interval {
                    lastProgress = .now
                    onProgress(total, lastProgress - start)
                }
            }
            return total
        }
    }
}
