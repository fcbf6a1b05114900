import Foundation

/// What independent pieces of work have found, added up.
protocol RunTally: Sendable {
    init()
    mutating func add(_ other: Self)
    /// Something was found that ends the run.
    var hasFailed: Bool { get }
}

extension RunTally {
    /// Adds up what the pieces of work find, so many at a time, until all are done or one has failed.
    ///
    /// - Parameters:
    ///   - describe: what has been done so far. It is written to standard error every few seconds.
    ///   - piece: does the piece with this number.
    static func sum(
        of pieces: Int, jobs: Int, describe: (Self) -> String, piece: @escaping @Sendable (Int) throws -> Self
    ) async throws -> Self {
        try await withThrowingTaskGroup(of: Self.self) { group in
            let start = ContinuousClock.now
            var lastProgress = start
            var total = Self()
            for number in 0..<min(jobs, pieces) { group.addTask { try piece(number) } }
            var started = min(jobs, pieces)
            while let done = try await group.next() {
                total.add(done)
                if started < pieces, !total.hasFailed {
                    group.addTask { [started] in try piece(started) }
                    started += 1
                }
                if ContinuousClock.now - lastProgress > .seconds(5) {
                    lastProgress = .now
                    let elapsed = String(format: ", %.0f s\n", (lastProgress - start).inSeconds)
                    FileHandle.standardError.write(Data((describe(total) + elapsed).utf8))
                }
            }
            return total
        }
    }
}
