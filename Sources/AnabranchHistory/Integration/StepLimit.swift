import AnabranchCore

/// Says when a step of a merge is over, so that a thread can do something else before the next one.
package struct StepLimit: Sendable {
    /// Returns true when the step is over; nil: it never is.
    private let ask: (@Sendable () -> Bool)?
    /// The amount of work between two questions, in pairs of instructions.
    let piece: Int
    private var done = 0

    /// A limit that never ends a step.
    package static let none = StepLimit(piece: .max, ask: nil)
    /// A limit that ends a step after as little work as possible.
    package static let smallest = StepLimit(asking: { true }, piece: 1)

    /// - Parameters:
    ///   - piece: how much work is done between two questions, in pairs of instructions that meet: some 10 ns each.
    ///   - isOver: whether the step is over.
    package init(asking isOver: @escaping @Sendable () -> Bool, piece: Int = 16_384) {
        self.init(piece: piece, ask: isOver)
    }

    /// Creates a limit that ends a step after a number of milliseconds from now.
    package init(milliseconds: Int64) {
        let end = ContinuousClock.now + .milliseconds(milliseconds)
        self.init { ContinuousClock.now >= end }
    }

    private init(piece: Int, ask: (@Sendable () -> Bool)?) {
        self.piece = piece
        self.ask = ask
    }

    /// True if it never ends a step.
    var isEndless: Bool { ask == nil }

    /// True if the step is over now.
    package var isOver: Bool { ask?() ?? false }

    /// True if the step is over after some more work. Asks once for each `piece` of work.
    /// - Parameter work: what was done since the last question, as pairs of instructions.
    mutating func isOver(after work: Int) -> Bool {
        guard let ask else { return false }
        done += min(work, piece)
        guard done >= piece else { return false }
        done = 0
        return ask()
    }
}

extension LogMerge {
    /// Merges until the run is merged or the step is over.
    /// - Returns: whether the run is merged.
    mutating func advance(until limit: inout StepLimit) throws(HistoryError) -> Bool {
        do {
            while try !advance(pairs: limit.piece) {
                if limit.isOver(after: limit.piece) { return false }
            }
            return true
        } catch {
            throw HistoryError(.badChangeset, "a changeset cannot be merged: \(error.reason)")
        }
    }
}
