import AnabranchCore

/// What queries and rules say about the objects of one uploaded changeset. Where that takes more than a step, the
/// changeset is tried again in the next one, and what is known is not asked again.
final class Evaluations {
    enum Question: Hashable {
        /// Whether the client sees an object that the changeset is about.
        case isSeen(ObjectReference)
        /// Whether it may do to it what it has done, and sees what it has created.
        case isAllowed(ObjectReference), isCreatedInView(ObjectReference)
        /// Whether it sees the object behind the changeset.
        case isSeenAfterwards(ObjectReference)

        fileprivate var object: ObjectReference {
            switch self {
            case .isSeen(let object), .isAllowed(let object), .isCreatedInView(let object),
                .isSeenAfterwards(let object):
                object
            }
        }
    }

    /// What was refused of the changeset before: it is not in what is left of it.
    var refused: [ObjectReference: CompensatingWrite.Object] = [:]
    private var answers: [Question: Bool] = [:]
    /// Where the log ended at the last try.
    private var version: ServerVersion = 0
    /// What the answers are about.
    private var role: ViewRole?
    private let step: () -> StepLimit
    /// Whether the changeset can be tried again.
    var isLimited = true
    private var limit = StepLimit.none
    /// How many questions were asked in the present part of the work.
    private var askedCount = 0
    /// Whether the step was over before all was known.
    private(set) var isOver = false
    /// How long it has taken.
    private(set) var time = Duration.zero

    /// - Parameter step: begins a step.
    init(step: @escaping () -> StepLimit) { self.step = step }

    /// Begins to integrate, or tries again, at the end of a log in which others have touched objects meanwhile.
    func begin(for role: ViewRole, at head: ServerVersion, touched: TouchedObjects) {
        if self.role?.rules != role.rules { answers = [:] }
        // Most have none, and a search of somebody else may have many objects noted.
        if !answers.isEmpty { answers = answers.filter { !touched.isTouched($0.key.object, after: version) } }
        (self.role, version) = (role, head)
        isOver = false
        time = .zero
    }

    /// A changeset comes: the one that is tried again, or the first one behind that.
    func beginChangeset() { isLimited = true }

    /// The changeset is integrated.
    func endChangeset() { (refused, answers) = ([:], [:]) }

    /// A part of the work begins that has a step of its own, from the first question on that is asked.
    func beginPart() { askedCount = 0 }

    /// To come to what is not known takes time as well, so there is a number of questions that are asked in any case.
    private var isPartOver: Bool { askedCount > answers.count / 64 && limit.isOver }

    /// - Returns: nil if the step is over.
    func answer(
        to question: Question, _ ask: () throws(HistoryError) -> Bool
    ) throws(HistoryError) -> Bool? {
        if let known = answers[question] { return known }
        if askedCount == 0 { limit = isLimited ? step() : .none } else if isPartOver { isOver = true }
        if isOver { return nil }
        askedCount += 1
        let start = ContinuousClock.now
        defer { time += ContinuousClock.now - start }
        let answer = try ask()
        answers[question] = answer
        return answer
    }
}
