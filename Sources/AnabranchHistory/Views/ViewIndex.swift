import AnabranchCore
import AnabranchQuery
import AnabranchRules

/// The views that are kept up to date, indexed by what an object must be like to concern them: a change of an object
/// meets only the views that it can concern, and views of equal queries and equal roles meet it once
/// (`Spec/FlexibleSync.md`).
struct ViewIndex {
    /// Equal views have equal answers.
    private struct Question: Hashable {
        let predicates: Predicates
        let rules: UserRules
    }

    private struct Group {
        let queries: ViewQueries
        let role: ViewRole
        var members: Set<ClientFileID> = []

        init(of view: ClientView) { (queries, role) = (view.queries, view.role) }

        var question: Question { Question(predicates: queries.predicates, rules: role.rules) }

        /// By class, the index that finds it.
        var places: some Sequence<(className: [UInt8], place: QueryIndex)> {
            queries.classNames.lazy.map { [queries, role] in ($0, .ofBoth(queries[$0].index, role[$0].read.index)) }
        }
    }

    /// How the groups that can be concerned by an object of one class are found.
    fileprivate struct ClassIndex {
        /// The groups that every object may concern.
        var others: Set<Int> = []
        var byValue: [Property: [Payload: Set<Int>]] = [:]
    }

    private var groups: [Int: Group] = [:]
    private var numbers: [Question: Int] = [:]
    private var numberOfMember: [ClientFileID: Int] = [:]
    private var classes: [[UInt8]: ClassIndex] = [:]
    private var newestNumber = 0

    func contains(_ ident: ClientFileID) -> Bool { numberOfMember[ident] != nil }

    var count: Int { numberOfMember.count }

    // MARK: Members

    /// Adds a view, or moves it to another group when it asks for something else.
    mutating func insert(_ view: ClientView) {
        let question = Question(predicates: view.queries.predicates, rules: view.role.rules)
        if let number = numberOfMember[view.ident] {
            guard groups[number]?.question != question else { return }
            remove(view.ident)
        }
        let number = numbers[question] ?? addGroup(question, view)
        groups[number]?.members.insert(view.ident)
        numberOfMember[view.ident] = number
    }

    mutating func remove(_ ident: ClientFileID) {
        guard let number = numberOfMember.removeValue(forKey: ident) else { return }
        groups[number]?.members.remove(ident)
        guard let group = groups[number], group.members.isEmpty else { return }
        groups[number] = nil
        numbers[group.question] = nil
        for (className, place) in group.places { classes[className]?.remove(number, at: place) }
    }

    private mutating func addGroup(_ question: Question, _ view: ClientView) -> Int {
        newestNumber += 1
        let group = Group(of: view)
        groups[newestNumber] = group
        numbers[question] = newestNumber
        for (className, place) in group.places {
            classes[className, default: ClassIndex()].add(newestNumber, at: place)
        }
        return newestNumber
    }

    // MARK: Changes

    /// The members of the groups that a step can concern, the oldest group first.
    func members(concernedBy step: LogStep) throws(HistoryError) -> [Set<ClientFileID>] {
        if step.changesSchema { return groups.keys.sorted().compactMap { groups[$0]?.members } }
        var found: Set<Int> = []
        // There may be thousands of groups, of objects, and of objects with one value: each is taken once.
        for className in Set(step.touched.values) { found.formUnion(classes[className]?.others ?? []) }
        var values: [[UInt8]: Set<FieldValue>] = [:]
        for (object, className) in step.touched {
            guard let index = classes[className], !index.byValue.isEmpty else { continue }
            for state in [step.before, step.after] {
                guard let object = try state.read(object, index.asks(for:)) else { continue }
                for property in index.byValue.keys {
                    values[className, default: []].formUnion(object.indexedValues(of: property))
                }
            }
        }
        for (className, values) in values {
            let groups = classes[className]?.byValue ?? [:]
            for value in values { found.formUnion(groups[value.property]?[value.value] ?? []) }
        }
        return found.sorted().compactMap { groups[$0]?.members }
    }
}

extension ViewIndex.ClassIndex {
    /// True if it has values of the property with this slot.
    fileprivate func asks(for slot: Int) -> Bool { byValue.keys.contains { $0.slot == slot } }

    fileprivate mutating func add(_ number: Int, at place: QueryIndex) {
        switch place {
        case .never: break
        case .always, .evaluated: others.insert(number)
        case .oneOf(let values):
            let named = Set(values.lazy.map(\.property)).union(byValue.keys)
            guard named.count <= ObjectIndex.propertiesMax else {
                others.insert(number)
                return
            }
            for value in values { byValue[value.property, default: [:]][value.value, default: []].insert(number) }
        }
    }

    fileprivate mutating func remove(_ number: Int, at place: QueryIndex) {
        guard others.remove(number) == nil, case .oneOf(let values) = place else { return }
        for value in values {
            let (property, payload) = (value.property, value.value)
            byValue[property]?[payload]?.remove(number)
            if byValue[property]?[payload]?.isEmpty == true { byValue[property]?[payload] = nil }
            if byValue[property]?.isEmpty == true { byValue[property] = nil }
        }
    }
}

extension ClientView {
    /// The index by which the objects of a class that it can see are found.
    func place(in className: [UInt8]) -> QueryIndex {
        .ofBoth(queries[className].index, role[className].read.index)
    }
}

extension QueryIndex {
    /// The index by which the objects that match both of two queries are found.
    static func ofBoth(_ first: QueryIndex, _ second: QueryIndex) -> QueryIndex {
        if [first, second].contains(.never) { return .never }
        let values = [first, second].compactMap { if case .oneOf(let values) = $0 { values } else { nil } }
        return values.min { $0.count < $1.count }.map(QueryIndex.oneOf) ?? .evaluated
    }
}
