// Predicates: and, or, not and parentheses (`Spec/Query.md`, section 3). Parentheses wait on a stack, because the
// canonical text of a query has one for each part of an or below a `not`.

extension Parser {
    /// Reads up to a token that cannot continue a predicate.
    mutating func disjunction() throws(QueryError) -> PredicatePart {
        var enclosing: [OpenPredicate] = []
        var open = OpenPredicate()
        while true {
            if accept(.not) {
                open.negationCount += 1
                guard open.negationCount <= QueryLimits.depthMax else { throw tooDeep() }
                continue
            }
            if predicateParentheses.contains(position) {
                _ = take()
                enclosing.append(open)
                open = OpenPredicate()
                continue
            }
            var part = try leaf()
            while true {
                open.append(part)
                if open.depth > QueryLimits.depthMax { throw tooDeep() }
                if accept(.and) { break }
                open.endConjunction()
                if accept(.or) { break }
                guard let outer = enclosing.popLast() else { return open.whole }
                try expect(.rightParenthesis, as: "\"and\", \"or\" or \")\"")
                (part, open) = (open.whole, outer)
            }
        }
    }

    private mutating func leaf() throws(QueryError) -> PredicatePart {
        guard next == .truePredicate || next == .falsePredicate else { return try comparison() }
        return PredicatePart(predicate: .always(take().kind == .truePredicate), depth: 0)
    }

    /// The positions of the parentheses that hold a predicate, and not numbers to calculate with: something in them
    /// compares or joins. A word does so only after an operand, elsewhere it names a property.
    static func predicateParentheses(in tokens: [Token]) -> Set<Int> {
        var found: Set<Int> = []
        var open: [(position: Int, holdsPredicate: Bool, isSubquery: Bool)] = []
        func close() {
            guard let closed = open.popLast(), closed.holdsPredicate, !closed.isSubquery else { return }
            found.insert(closed.position)
            if !open.isEmpty { open[open.count - 1].holdsPredicate = true }
        }
        var previous = Token.Kind.end
        for (position, token) in tokens.enumerated() {
            switch token.kind {
            case .leftParenthesis: open.append((position, false, previous == .subquery))
            case .rightParenthesis: close()
            case .equal, .notEqual, .less, .lessOrEqual, .greater, .greaterOrEqual, .and, .or, .not, .truePredicate,
                .falsePredicate, .geoWithin:
                if !open.isEmpty { open[open.count - 1].holdsPredicate = true }
            case .isIn, .between, .beginsWith, .endsWith, .contains, .like, .text:
                if !open.isEmpty, previous.endsOperand { open[open.count - 1].holdsPredicate = true }
            default: break
            }
            previous = token.kind
        }
        while !open.isEmpty { close() }
        return found
    }
}

/// A predicate that was read, and the depth of nesting in it.
struct PredicatePart {
    var predicate: Predicate
    var depth: Int
}

/// A predicate that is being read, from its start or from an opening parenthesis on.
struct OpenPredicate {
    /// The number of `not`s before the next part.
    var negationCount = 0
    private var alternatives = JoinedParts()
    private var conjuncts = JoinedParts()

    mutating func append(_ part: PredicatePart) {
        var part = part
        for _ in 0..<negationCount { part = PredicatePart(predicate: .not(part.predicate), depth: part.depth + 1) }
        negationCount = 0
        conjuncts.append(part, \.conjunction)
    }

    /// Ends a conjunction: no `and` follows.
    mutating func endConjunction() {
        alternatives.append(conjuncts.whole(Predicate.and), \.disjunction)
        conjuncts = JoinedParts()
    }

    /// The predicate that was read.
    var whole: PredicatePart { alternatives.whole(Predicate.or) }

    var depth: Int { max(alternatives.depth, conjuncts.depth) }
}

/// Parts with the same word between them.
private struct JoinedParts {
    private var predicates: [Predicate] = []
    /// The depth of the deepest part.
    private(set) var depth = 0

    /// - Parameter parts: the parts of a predicate that is joined by the same word. `(a or b) or c` is `a or b or c`.
    mutating func append(_ part: PredicatePart, _ parts: (Predicate) -> [Predicate]?) {
        if predicates.isEmpty, let inner = parts(part.predicate) {
            (predicates, depth) = (inner, part.depth - 1)
        } else {
            predicates.append(part.predicate)
            depth = max(depth, part.depth)
        }
    }

    func whole(_ joined: ([Predicate]) -> Predicate) -> PredicatePart {
        predicates.count == 1
            ? PredicatePart(predicate: predicates[0], depth: depth)
            : PredicatePart(predicate: joined(predicates), depth: depth + 1)
    }
}

extension Predicate {
    /// The parts of an and; the next one, those of an or.
    var conjunction: [Predicate]? { if case .and(let parts) = self { parts } else { nil } }
    var disjunction: [Predicate]? { if case .or(let parts) = self { parts } else { nil } }
}
