import AnabranchCore
import AnabranchRules

/// The searches of clients, each shared by all that look for the same: that is found once, and made into changesets
/// once, for a set that a whole release of an app asks for, or another role of all of its users.
struct SharedSearches {
    /// The question that a search answers: what is seen before, and what afterwards.
    struct Question: Hashable {
        struct Sight: Hashable {
            let predicates: Predicates
            let rules: UserRules
            /// The schema size of the state for which the role was made.
            let schemaSize: Int

            init(of view: ClientView) {
                (predicates, rules) = (view.queries.predicates, view.role.rules)
                schemaSize = view.role.schemaSize
            }
        }

        let before, after: Sight
    }

    /// The largest number of searches that are kept in addition to those that somebody waits for, and the largest size
    /// of the changesets that are kept, in bytes.
    private static let (countMax, madeBytesMax) = (16, 16 << 20)
    /// The number of objects that all have found beyond which only the one goes on that has found the most.
    var objectsMax = 1_048_576

    private var searches: [Question: (search: ViewSearch, use: UInt64)] = [:]
    private var useCount: UInt64 = 0
    /// The changesets that were made, the finding that they are of, and where each of them ends; those used last come
    /// last.
    private var made: [(finding: UInt64, partBytes: Int, changesets: SharedChangesets)] = []

    var isEmpty: Bool { searches.isEmpty }

    /// The number of objects that they have found, or are to look at again.
    var objectCount: Int { searches.values.reduce(0) { $0 + $1.search.objectCount } }

    mutating func removeAll() { (searches, made) = ([:], []) }

    subscript(question: Question) -> ViewSearch? { searches[question]?.search }

    /// True if a search may go on, or begin.
    /// - Parameter waitingCount: how many clients wait for a search.
    mutating func mayGoOn(_ question: Question, waitingCount: Int) -> Bool {
        guard objectCount > objectsMax else { return true }
        useCount += 1
        searches[question]?.use = useCount
        // Those that are waited for have asked since.
        let oldest = UInt64(2 * waitingCount + 1)
        searches = searches.filter { useCount - $0.value.use <= oldest }
        let own = searches[question]?.search.objectCount ?? 0
        return objectCount <= objectsMax || searches.values.allSatisfy { $0.search.objectCount <= own }
    }

    /// - Parameter waitingCount: how many clients wait for a search.
    mutating func keep(_ search: ViewSearch, for question: Question, waitingCount: Int) {
        useCount += 1
        searches[question] = (search, useCount)
        // A search that somebody waits for is used in each round.
        guard searches.count > Self.countMax + waitingCount else { return }
        if let oldest = searches.min(by: { $0.value.use < $1.value.use }) { searches[oldest.key] = nil }
    }

    /// The changesets for the objects that were found: made again only if one of these was touched since.
    mutating func changesets(
        for question: Question, endingAt partBytes: Int, in state: ObjectGraph
    ) throws(HistoryError) -> SharedChangesets {
        guard let search = searches[question]?.search else { return SharedChangesets([]) }
        if let index = made.firstIndex(where: { $0.finding == search.finding && $0.partBytes == partBytes }) {
            let known = made.remove(at: index)
            made.append(known)
            return known.changesets
        }
        let moves = search.moves
        let changesets = SharedChangesets(
            try state.changesets(leaving: moves.leaving, entering: moves.entering, endingAt: partBytes))
        made.append((search.finding, partBytes, changesets.known))
        let findings = Set(searches.values.map(\.search.finding))
        made.removeAll { !findings.contains($0.finding) || $0.changesets.byteCount > Self.madeBytesMax }
        while made.reduce(0, { $0 + $1.changesets.byteCount }) > Self.madeBytesMax { made.removeFirst() }
        return changesets
    }
}

/// Changesets that several views get.
struct SharedChangesets {
    let bytes: [[UInt8]]
    /// The share of each changeset.
    private(set) var shares: [ViewShare]

    init(_ changesets: [[UInt8]]) {
        bytes = changesets
        shares = changesets.map { _ in .new }
    }

    fileprivate var byteCount: Int { bytes.reduce(0) { $0 + $1.count } }

    /// The same, once a view has got them.
    fileprivate var known: SharedChangesets {
        var changesets = self
        for index in shares.indices { changesets.shares[index].isKnown = true }
        return changesets
    }
}

extension FlexibleFile {
    /// Continues the search for what changes for a view, which has reached the end of the log.
    /// - Returns: the question that is answered; nil if the step is over first.
    func search(
        from view: ClientView, to after: ClientView, until limit: StepLimit
    ) throws(HistoryError) -> SharedSearches.Question? {
        let question = SharedSearches.Question(before: .init(of: view), after: .init(of: after))
        let waitingCount = searches.count + catchUps.count + 1
        guard limit.isEndless || sharedSearches.mayGoOn(question, waitingCount: waitingCount) else { return nil }
        var search = sharedSearches[question] ?? ViewSearch(from: view, to: after, at: file.head.version)
        let isFound = try search.advance(
            in: try currentState(), at: file.head.version, after: touched, finding: &objects, until: limit)
        sharedSearches.keep(search, for: question, waitingCount: waitingCount)
        return isFound ? question : nil
    }

    /// The largest number of objects, found or touched since, that are kept for others that ask the same.
    private static let knownObjectsMax = 65_536

    /// Forgets large searches that nobody waits for; and the touched objects, which are recorded only while a search is
    /// under way, or others can share its result.
    func forgetTouched() {
        let isWaitedFor = !searches.isEmpty || !catchUps.isEmpty
        if !isWaitedFor, sharedSearches.objectCount + touched.count > Self.knownObjectsMax {
            sharedSearches.removeAll()
        }
        if !isTouchedNoted { touched = TouchedObjects() }
    }

    var isTouchedNoted: Bool {
        !searches.isEmpty || !catchUps.isEmpty || !trying.isEmpty || !sharedSearches.isEmpty
    }
}
