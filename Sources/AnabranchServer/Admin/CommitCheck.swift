/// The check that changes can be committed. It costs every database a flush, so it is made at most once a second,
/// however many requests ask.
actor CommitCheck {
    private let isPossible: @Sendable () async -> Bool
    private var latest: (second: UInt64, answer: Task<Bool, Never>)?
    private var isUnderWay = false

    /// - Parameter isPossible: tries it.
    init(_ isPossible: @escaping @Sendable () async -> Bool) { self.isPossible = isPossible }

    /// - Parameter second: of the server's time.
    func answer(at second: UInt64) async -> Bool {
        if let latest, isUnderWay || latest.second == second { return await latest.answer.value }
        let answer = Task { [isPossible] in await isPossible() }
        (latest, isUnderWay) = ((second, answer), true)
        defer { isUnderWay = false }
        return await answer.value
    }
}
