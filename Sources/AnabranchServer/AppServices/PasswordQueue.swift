import Synchronization

/// Decides whose password is hashed next: a hash takes so long that one client trying many passwords could keep all
/// others waiting. The cost of an attempt is the number of recent attempts of its address and its account that were
/// wrong or are not decided. The cheapest attempt is next, and the dearest is refused if too many wait. So a flood from
/// one address, or against one account, waits for itself; and a user who has logged in to an account from an address
/// before has a queue of their own there, whatever others try at that account or from that address.
final class PasswordQueue: Sendable {
    /// The address that tries a password, and the account.
    struct Attempt: Hashable, Sendable {
        /// The name of the client's address.
        let address: String
        /// The app and the e-mail address.
        let account: String
    }

    /// The callback of an attempt: true when it is its turn, false if it is refused.
    typealias Turn = @Sendable (Bool) -> Void

    fileprivate struct Waiting {
        let attempt: Attempt
        let onTurn: Turn
    }

    fileprivate struct State {
        var running = 0
        /// The waiting attempts, in order of arrival.
        var waiting: [Waiting] = []
        var costs = AttemptCosts()
    }

    private let countMax: Int
    private let runningMax: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - countMax: the most attempts that are under way or wait; if there are more, the dearest are refused.
    ///   - runningMax: the most attempts that are under way.
    init(countMax: Int, runningMax: Int) { (self.countMax, self.runningMax) = (countMax, runningMax) }

    /// Calls back, at once or later, with whether it is the attempt's turn; if so, `end` has to follow.
    /// - Parameter now: seconds since 1970.
    func begin(_ attempt: Attempt, now: Int64, _ onTurn: @escaping Turn) {
        let (next, refused) = state.withLock { state in
            state.costs.turn(to: now)
            state.costs.begin(attempt)
            state.waiting.append(Waiting(attempt: attempt, onTurn: onTurn))
            let refused = state.running + state.waiting.count > countMax ? state.takeDearest() : nil
            if let refused { state.costs.end(refused.attempt, wasRight: nil) }
            return (state.takeNext(runningMax), refused)
        }
        refused?.onTurn(false)
        next?.onTurn(true)
    }

    /// Waits until it is the attempt's turn.
    /// - Returns: false if it is refused.
    func begin(_ attempt: Attempt, now: Int64) async -> Bool {
        await withCheckedContinuation { turn in begin(attempt, now: now) { turn.resume(returning: $0) } }
    }

    /// - Parameter wasRight: false if the password was wrong; nil if that was not the question.
    func end(_ attempt: Attempt, wasRight: Bool?) {
        let next = state.withLock { state in
            state.costs.end(attempt, wasRight: wasRight)
            state.running -= 1
            return state.takeNext(runningMax)
        }
        next?.onTurn(true)
    }
}

extension PasswordQueue.State {
    /// Takes the cheapest attempt, the first of those with the same cost; nil if none waits, or no more may be under
    /// way.
    fileprivate mutating func takeNext(_ runningMax: Int) -> PasswordQueue.Waiting? {
        guard running < runningMax else { return nil }
        let costs = waitingCosts
        guard let index = costs.indices.min(by: { costs[$0] < costs[$1] }) else { return nil }
        running += 1
        return waiting.remove(at: index)
    }

    /// Takes the dearest attempt, the last of those with the same cost.
    fileprivate mutating func takeDearest() -> PasswordQueue.Waiting? {
        let costs = waitingCosts
        return costs.indices.reversed().max { costs[$0] < costs[$1] }.map { waiting.remove(at: $0) }
    }

    private var waitingCosts: [Int] { waiting.map { costs[$0.attempt] } }
}

/// The costs of recent attempts.
private struct AttemptCosts {
    /// The number of pairs of an address and an account that are remembered after a right password; as many older ones
    /// are remembered besides.
    static let knownMax = 50_000

    private var minute: Int64 = 0
    private var addresses = AttemptCounts<String>()
    private var accounts = AttemptCounts<String>()
    private var pairs = AttemptCounts<PasswordQueue.Attempt>()
    /// The hash values of the pairs: two pairs with the same value are treated alike, which does no harm.
    private var known: Set<Int> = []
    private var knownBefore: Set<Int> = []

    subscript(attempt: PasswordQueue.Attempt) -> Int {
        let isKnown = known.contains(attempt.hashValue) || knownBefore.contains(attempt.hashValue)
        return isKnown ? pairs[attempt] : addresses[attempt.address] + accounts[attempt.account]
    }

    mutating func begin(_ attempt: PasswordQueue.Attempt) { count(attempt, undecided: 1) }

    /// - Parameter wasRight: nil for an attempt that was refused, or that was about no password that there is.
    mutating func end(_ attempt: PasswordQueue.Attempt, wasRight: Bool?) {
        count(attempt, undecided: -1, wrong: wasRight == false ? 1 : 0)
        guard wasRight == true else { return }
        if known.count >= Self.knownMax { (known, knownBefore) = ([], known) }
        known.insert(attempt.hashValue)
    }

    private mutating func count(_ attempt: PasswordQueue.Attempt, undecided: Int, wrong: Int = 0) {
        addresses.count(attempt.address, undecided, wrong)
        accounts.count(attempt.account, undecided, wrong)
        pairs.count(attempt, undecided, wrong)
    }

    mutating func turn(to now: Int64) {
        let halvings = min(max(0, now / 60 - minute), 63)
        minute = now / 60
        guard halvings > 0 else { return }
        addresses.forget(halvings)
        accounts.forget(halvings)
        pairs.forget(halvings)
    }
}

/// The attempts per name: those that are not decided, and wrong passwords. The number of names stays small: they are
/// those of attempts under way, and of the wrong passwords of the last few minutes, each of which took the time of a
/// hash.
private struct AttemptCounts<Name: Hashable> {
    private var undecided: [Name: Int] = [:]
    private var wrong: [Name: Int] = [:]

    subscript(name: Name) -> Int { undecided[name, default: 0] + wrong[name, default: 0] }

    mutating func count(_ name: Name, _ undecided: Int, _ wrong: Int) {
        let sum = self.undecided[name, default: 0] + undecided
        self.undecided[name] = sum > 0 ? sum : nil
        if wrong > 0 { self.wrong[name, default: 0] += wrong }
    }

    /// Halves the number of wrong passwords the given number of times.
    mutating func forget(_ halvings: Int64) {
        wrong = wrong.compactMapValues { $0 >> halvings > 0 ? $0 >> halvings : nil }
    }
}
