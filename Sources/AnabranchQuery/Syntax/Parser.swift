import AnabranchCore

/// Reads the language, with one method for each rule of its grammar, in the same order (`Spec/Query.md`, section 3).
struct Parser {
    let text: [UInt8]
    let tokens: [Token]
    var position = 0
    /// The positions of opening parentheses that hold a predicate.
    let predicateParentheses: Set<Int>
    private var depth = 0
    /// The calculations in the comparison that is being read, and the depth of the subqueries in it.
    private var operationCount = 0
    private var subqueryDepth = 0

    /// - Parameter isRule: whether `$user.id` stands for a constant.
    init(_ text: [UInt8], isRule: Bool = false) throws(QueryError) {
        self.text = text
        let tokens = try Lexer.tokens(of: text)
        self.tokens = try isRule ? tokens.namingUser(in: text) : tokens
        predicateParentheses = Self.predicateParentheses(in: self.tokens)
    }

    // MARK: Tokens

    var next: Token.Kind { tokens[position].kind }
    var following: Token.Kind { position + 1 < tokens.count ? tokens[position + 1].kind : .end }
    var place: Place { Place(tokens[position].range.lowerBound) }

    mutating func take() -> Token {
        defer { if next != .end { position += 1 } }
        return tokens[position]
    }

    /// Takes the next token if it is of a kind.
    mutating func accept(_ kind: Token.Kind) -> Bool {
        guard next == kind else { return false }
        position += 1
        return true
    }

    @discardableResult
    mutating func expect(_ kinds: Token.Kind..., as what: String) throws(QueryError) -> Token {
        guard kinds.contains(next) else { throw unexpected(what) }
        return take()
    }

    func bytes(_ token: Token) -> [UInt8] { Array(text[token.range]) }

    func unexpected(_ what: String) -> QueryError {
        let token = tokens[position]
        let found = token.kind == .end ? "the end" : "\"\(String(excerptOf: text[token.range]))\""
        return QueryError(.syntax, at: token.range.lowerBound, "\(found) where \(what) is expected")
    }

    /// Reads something that can hold others of its kind.
    mutating func nested<Result>(
        _ body: (inout Parser) throws(QueryError) -> Result
    ) throws(QueryError) -> Result {
        guard depth < QueryLimits.depthMax else { throw tooDeep() }
        depth += 1
        defer { depth -= 1 }
        return try body(&self)
    }

    func tooDeep() -> QueryError {
        QueryError(.limit, at: place.offset, "nested deeper than \(QueryLimits.depthMax)")
    }

    /// Records how deep a subquery of the comparison is.
    mutating func recordSubquery(depth: Int) { subqueryDepth = max(subqueryDepth, depth) }

    /// Counts anything that makes the tree of a comparison deeper: an operation on numbers, or BETWEEN, which becomes
    /// an and.
    mutating func countOperation() throws(QueryError) {
        operationCount += 1
        guard operationCount <= QueryLimits.depthMax else {
            throw QueryError(.limit, at: place.offset, "more than \(QueryLimits.depthMax) calculations in a comparison")
        }
    }

    // MARK: Predicates

    mutating func query() throws(QueryError) -> ParsedQuery {
        let predicate = try disjunction().predicate
        var suffixes: [ParsedQuery.Suffix] = []
        while let suffix = try suffix() { suffixes.append(suffix) }
        try expect(.end, as: "\"and\", \"or\" or the end")
        return ParsedQuery(predicate, suffixes)
    }

    mutating func comparison() throws(QueryError) -> PredicatePart {
        let outer = (operationCount, subqueryDepth)
        (operationCount, subqueryDepth) = (0, 0)
        defer { (operationCount, subqueryDepth) = outer }
        let predicate = try plainComparison()
        return PredicatePart(predicate: predicate, depth: subqueryDepth + operationCount)
    }

    private mutating func plainComparison() throws(QueryError) -> Predicate {
        let opening = next
        let left = try expression()
        if let relation = Relation(equality: next) ?? Relation(order: next) {
            _ = take()
            let ignoresCase = Relation.equalities.contains(relation) && accept(.caseFlag)
            return .comparison(
                Comparison(left: left, relation: relation, ignoresCase: ignoresCase, right: try expression()))
        }
        if case .arithmetic = left { throw unexpected("a comparison of numbers") }
        guard opening != .leftParenthesis else { throw unexpected("a comparison of numbers") }
        if let relation = Relation(onStrings: next) {
            _ = take()
            let ignoresCase = relation != .text && accept(.caseFlag)
            return .comparison(Comparison(left: left, relation: relation, ignoresCase: ignoresCase, right: try value()))
        }
        if accept(.between) {
            try countOperation()
            return .between(left, try list())
        }
        if next == .geoWithin, case .property(let property) = left {
            _ = take()
            return .geoWithin(property, try shape())
        }
        throw unexpected("an operator")
    }

    // MARK: Suffixes

    private mutating func suffix() throws(QueryError) -> ParsedQuery.Suffix? {
        switch next {
        case .limit:
            _ = take()
            try expect(.leftParenthesis, as: "\"(\"")
            let count = Int(String(decoding: bytes(try expect(.natural, as: "a number")), as: UTF8.self)) ?? .max
            try expect(.rightParenthesis, as: "\")\"")
            return .limit(count)
        case .sort:
            return .sort(
                try paths { parser, path throws(QueryError) in
                    let isAscending = try parser.expect(.ascending, .descending, as: "ASC or DESC").kind == .ascending
                    return ParsedQuery.SortKey(path: path, isAscending: isAscending)
                })
        case .distinct: return .distinct(try paths { _, path throws(QueryError) in path })
        default: return nil
        }
    }

    private mutating func paths<Item>(
        _ item: (inout Parser, PropertyPath) throws(QueryError) -> Item
    ) throws(QueryError) -> [Item] {
        _ = take()
        try expect(.leftParenthesis, as: "\"(\"")
        var items: [Item] = []
        repeat { items.append(try item(&self, try path())) } while accept(.comma)
        try expect(.rightParenthesis, as: "\",\" or \")\"")
        return items
    }
}

extension Relation {
    static let equalities: Set<Relation> = [.equal, .notEqual, .isIn]

    init?(equality token: Token.Kind) {
        switch token {
        case .equal: self = .equal
        case .notEqual: self = .notEqual
        case .isIn: self = .isIn
        default: return nil
        }
    }

    init?(order token: Token.Kind) {
        switch token {
        case .less: self = .less
        case .lessOrEqual: self = .lessOrEqual
        case .greater: self = .greater
        case .greaterOrEqual: self = .greaterOrEqual
        default: return nil
        }
    }

    init?(onStrings token: Token.Kind) {
        switch token {
        case .beginsWith: self = .beginsWith
        case .endsWith: self = .endsWith
        case .contains: self = .contains
        case .like: self = .like
        case .text: self = .text
        default: return nil
        }
    }
}

extension ParsedQuery {
    /// Reads a text.
    ///
    /// - Throws: `QueryError` of the kinds `syntax` and `limit`.
    public init(_ text: [UInt8]) throws(QueryError) {
        var parser = try Parser(text)
        self = try parser.query()
    }

    /// Reads a text.
    ///
    /// - Throws: `QueryError` of the kinds `syntax` and `limit`.
    public init(_ text: String) throws(QueryError) { try self.init(Array(text.utf8)) }
}
