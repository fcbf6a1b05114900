import AnabranchHistory
import AnabranchTesting
import Synchronization

/// The limits of steps: each is over after as much work as the seed says, or never.
final class RandomSteps: Sendable {
    /// The rest of a step.
    private final class Rest: Sendable {
        private let questions: Atomic<Int>

        init(questions: Int) { self.questions = Atomic(questions) }

        var isOver: Bool { questions.subtract(1, ordering: .relaxed).oldValue <= 0 }
    }

    /// How often a step that ends may say before that it is not over.
    static let someQuestions = [0, 0, 1, 2, 4, 8, 20]

    private let questions: [Int]
    private let state: Mutex<(random: SeededRandom, lengths: SeededRandom, areShort: Bool)>

    /// - Parameter questions: how often a step that ends says before that it is not over: one of these.
    init(seed: UInt64, questions: [Int] = someQuestions) {
        self.questions = questions
        state = Mutex((SeededRandom(seed: seed), SeededRandom(scrambling: seed), true))
    }

    /// False if no step ends any more.
    var areShort: Bool {
        get { state.withLock { $0.areShort } }
        set { state.withLock { $0.areShort = newValue } }
    }

    func begin() -> StepLimit {
        let length = state.withLock { [questions] state in
            state.areShort && state.random.isOne(in: 2) ? state.lengths.pick(questions) : nil
        }
        guard let length else { return .none }
        let rest = Rest(questions: length)
        return StepLimit(asking: { rest.isOver }, piece: 1)
    }
}
