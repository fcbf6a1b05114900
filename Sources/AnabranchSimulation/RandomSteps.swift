import AnabranchHistory
import AnabranchTesting
import Synchronization

/// The limits of steps: each is over after as much work as the seed says, or never.
final class RandomSteps: Sendable {
    /// What is left of a step.
    private final class Rest: Sendable {
        private let questions: Atomic<Int>

        init(questions: Int) { self.questions = Atomic(questions) }

        var isOver: Bool { questions.subtract(1, ordering: .relaxed).oldValue <= 0 }
    }

    /// How often a step that ends says that it is not over.
    private static let questions = [0, 0, 1, 2, 4, 8, 20]

    private let state: Mutex<(random: SeededRandom, areShort: Bool)>

    init(seed: UInt64) { state = Mutex((SeededRandom(seed: seed), true)) }

    /// False if no step ends any more.
    var areShort: Bool {
        get { state.withLock { $0.areShort } }
        set { state.withLock { $0.areShort = newValue } }
    }

    func begin() -> StepLimit {
        let questions = state.withLock { state in
            state.areShort && state.random.isOne(in: 2) ? state.random.pick(Self.questions) : nil
        }
        guard let questions else { return .none }
        let rest = Rest(questions: questions)
        return StepLimit(asking: { rest.isOver }, piece: 1)
    }
}
