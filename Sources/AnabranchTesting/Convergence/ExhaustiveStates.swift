import AnabranchCore

/// Two classes with an object each: an Int, a nullable String, a list, a set, a dictionary, and a Mixed with a nested
/// list. All pairs of single instructions are tried in each of its states.
package enum ExhaustiveStates {
    /// An element of the list in the Mixed.
    enum Element {
        case value
        case link
        case list(Int)
        case dictionary
    }

    /// The content of the Mixed.
    enum Mixed {
        case value(Payload)
        case list([Element])
        case dictionary([String])

        var hasLinkInList: Bool {
            guard case .list(let elements) = self else { return false }
            return elements.contains { if case .link = $0 { true } else { false } }
        }
    }

    /// A state from which both sides start.
    struct State {
        var graph: ObjectGraph
        /// The instructions that are valid in the state, by side.
        var options: (older: [Option], newer: [Option])
    }

    /// A valid instruction, and the state after it.
    struct Option {
        var changeset: [UInt8]
        /// See `PairCheck.releasedForm(of:endingAt:)`.
        var releasedForm: [UInt8]?
        var graph: ObjectGraph
        var instruction: AuthoredInstruction
    }

    // MARK: States

    private static let mixedContents: [Mixed] = [
        .value(.null), .value(5), .value(.link(className: [UInt8(ascii: "B")], key: 1)), .dictionary(["a"]), .list([]),
        .list([.value, .value]), .list([.link, .value]), .list([.list(1), .value]), .list([.dictionary, .list(0)]),
    ]

    /// The number of states.
    package static var stateCount: Int { 4 * 3 * 2 * mixedContents.count }

    /// One of the states.
    static func state(_ number: Int) throws -> State {
        let listCount = number % 4
        let filling = number / 4 % 3
        let hasObjectOfB = number / 12 % 2 == 1
        let mixed = mixedContents[number / 24]
        var graph = ObjectGraph()
        _ = try graph.write(as: 1) { transaction in
            try declareClasses(in: transaction)
            if hasObjectOfB || mixed.hasLinkInList { try transaction.create("B", key: 1) }
            let object = try transaction.create("A", key: 1)
            object["int"] = .int(Int64(filling))
            if filling > 0 { object["text"] = "a" }
            for index in 0..<listCount { try object.list("list").append(.int(Int64(index))) }
            for value in 0..<filling {
                try object.set("set").insert(.int(Int64(value + 1)))
                try object.dictionary("dictionary").set(.int(3), for: ["a", "b"][value])
            }
            try set(mixed, of: object, hasTarget: hasObjectOfB)
        }
        if !hasObjectOfB, mixed.hasLinkInList {
            // Another side has erased the object: the link dangles.
            let erasure = ChangesetWriter([.eraseObject(ObjectName(className: "B"))]).bytes
            var arena = ChangesetArena()
            try arena.decode(erasure, version: 1, tag: tags.older)
            try graph.apply(0, of: arena)
        }
        let options = try (
            options(by: 0, in: graph, listCount, mixed), options(by: 1, in: graph, listCount, mixed)
        )
        return State(graph: graph, options: options)
    }

    private static func declareClasses(in transaction: WriteTransaction) throws {
        try transaction.addClass("A", key: "_id", .int)
        try transaction.addClass("B", key: "_id", .int)
        try transaction.addColumn("int", .int, to: "A")
        try transaction.addColumn("text", .string, isNullable: true, to: "A")
        try transaction.addColumn("list", .int, collection: .list, to: "A")
        try transaction.addColumn("set", .int, collection: .set, to: "A")
        try transaction.addColumn("dictionary", .int, collection: .dictionary, to: "A")
        try transaction.addColumn("mixed", .null, to: "A")
        try transaction.addColumn("int", .int, to: "B")
    }

    private static func set(_ mixed: Mixed, of object: DynamicObject, hasTarget: Bool) throws {
        switch mixed {
        case .value(.link) where !hasTarget: object["mixed"] = "b"
        case .value(let value): object["mixed"] = value
        case .dictionary(let keys):
            object["mixed"] = .dictionary
            for key in keys { try object.dictionary("mixed").set(3, for: key) }
        case .list(let elements):
            object["mixed"] = .list
            let list = try object.list("mixed")
            for (index, element) in elements.enumerated() {
                switch element {
                case .value: try list.append(.int(Int64(index)))
                case .link: try list.append(.link(className: [UInt8(ascii: "B")], key: 1))
                case .dictionary: try list.append(.dictionary)
                case .list(let count):
                    try list.append(.list)
                    for _ in 0..<count { try list.list(at: index).append(4) }
                }
            }
        }
    }

    private static func options(
        by author: Int, in graph: ObjectGraph, _ listCount: Int, _ mixed: Mixed
    ) throws -> [Option] {
        let elements: [Element]? = if case .list(let elements) = mixed { elements } else { nil }
        var options: [Option] = []
        for changeset in SingleInstructions(by: author, listCount: listCount, mixed: elements).changesets {
            var arena = ChangesetArena()
            try arena.decode(changeset, version: 1, tag: tags.older)
            var after = graph
            guard (try? after.apply(0, of: arena)) != nil, let instruction = arena.instructions(of: 0).first else {
                continue
            }
            let isSame = try StateDigest(of: after) == StateDigest(of: graph)
            let made = AuthoredInstruction(
                author: 0, tag: tags.older, instruction: instruction, path: arena.path(of: instruction),
                isRepeated: isSame && (instruction.type == .list || instruction.type == .dictionary))
            let form = try PairCheck.releasedForm(of: changeset, endingAt: after)
            options.append(Option(changeset: changeset, releasedForm: form, graph: after, instruction: made))
        }
        return options
    }

    private static let tags = (older: OriginTag(timestamp: 1, ident: 2), newer: OriginTag(timestamp: 1, ident: 3))

    // MARK: Pairs

    /// Tries all pairs in all states, `jobs` states at a time.
    package static func check(
        jobs: Int, interval: Duration = .seconds(5), isStopped: () -> Bool = { false },
        onProgress: (ExhaustiveReport, Duration) -> Void = { _, _ in }
    ) async throws -> ExhaustiveReport {
        try await ExhaustiveReport.sum(
            of: stateCount, jobs: jobs, interval: interval, isStopped: isStopped, onProgress: onProgress
        ) { try check(state($0)) }
    }

    private static func check(_ state: State) throws -> ExhaustiveReport {
        var report = ExhaustiveReport()
        for older in state.options.older {
            for newer in state.options.newer { try check(older, newer, in: state, &report) }
        }
        report.states = 1
        return report
    }

    private static func check(
        _ older: Option, _ newer: Option, in state: State, _ report: inout ExhaustiveReport
    ) throws {
        let check = PairCheck(
            PairCheck.Side(of: older, tags.older), PairCheck.Side(of: newer, tags.newer))
        let kinds = (older.instruction.instruction.kind, newer.instruction.instruction.kind)
        report.countPair(kinds)
        if check.hasEffect {
            // Names are compared, so both have to be in one arena.
            let pair = try Pair(older, newer)
            if let rule = pair.rule { report.rules[rule, default: 0] += 1 } else { report.unexplained += 1 }
        }
        if check.outcome == .converged { return }
        let pair = try Pair(older, newer)
        if let divergence = pair.divergence {
            report.excluded[divergence, default: 0] += 1
        } else {
            report.failures += 1
            if report.failureTexts.count < 10 {
                report.failureTexts.append(try pair.text(check.outcome, in: state.graph))
            }
        }
    }

    /// Both instructions in one arena.
    private struct Pair {
        private(set) var older: AuthoredInstruction
        private(set) var newer: AuthoredInstruction
        let made: AuthoredInstructions

        init(_ older: Option, _ newer: Option) throws {
            var made = AuthoredInstructions()
            try made.read(older.changeset, by: 0, tag: tags.older)
            try made.read(newer.changeset, by: 1, tag: tags.newer)
            (self.older, self.newer) = (made.list[0], made.list[1])
            self.older.isRepeated = older.instruction.isRepeated
            self.newer.isRepeated = newer.instruction.isRepeated
            self.made = made
        }

        var rule: MergeRule? {
            MergeRule(older.instruction, newer.instruction)
        }

        var divergence: KnownDivergence? { KnownDivergence.find(older, newer, in: made) }

        func text(_ outcome: PairCheck.Outcome, in graph: ObjectGraph) throws -> String {
            """
            \(outcome) in \(String(decoding: try graph.canonicalJSON(), as: UTF8.self))
              older: \(made.arena.text(of: older.instruction))
              newer: \(made.arena.text(of: newer.instruction))
            """
        }
    }
}

extension PairCheck.Side {
    fileprivate init(of option: ExhaustiveStates.Option, _ tag: OriginTag) {
        self.init(changeset: option.changeset, releasedForm: option.releasedForm, state: option.graph, tag: tag)
    }
}
