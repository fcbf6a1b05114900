import AnabranchCore
import AnabranchRules
import DequeModule

/// A search for what changes in the view of a client with other queries or roles: the objects of a state that enter it,
/// and those that leave it. They are found step by step, while others commit; the objects that these commits touch are
/// evaluated again.
struct ViewSearch {
    /// The view that the client has, and the one that it is to have, as they were when the search began.
    private let before: ClientView
    private let after: ClientView
    private var entering: Set<ObjectReference> = []
    private var leaving: Set<ObjectReference> = []
    /// Identifies in this process what a finished search has found, and the contents of these objects.
    private(set) var finding = ViewSearch.newFinding

    private static var newFinding: UInt64 { .random(in: 1...(.max)) }

    /// The names of the classes to search.
    private var classes: Deque<[UInt8]>
    /// How the first one is searched; nil if that is not known yet.
    private var way: Way?
    /// Objects that were touched during the search, and have to be evaluated again.
    private var touched: Deque<ObjectReference> = []
    /// The version up to which everything that was touched was looked at.
    private var version: ServerVersion

    private enum Way {
        /// All objects after a key, or from the first one on.
        case all(after: PrimaryKey?)
        /// Only these objects can be concerned.
        case objects(ArraySlice<ObjectReference>)
    }

    /// - Parameters:
    ///   - before: the view at the end of the log.
    ///   - after: the same with other queries or another role.
    ///   - version: the end of the log.
    init(from before: ClientView, to after: ClientView, at version: ServerVersion) {
        (self.before, self.after, self.version) = (before.withoutLog, after.withoutLog, version)
        let names = Set(before.queries.predicates.keys).union(after.queries.predicates.keys).sorted()
        classes = Deque(
            names.filter { name in
                before.queries.predicates[name] != after.queries.predicates[name]
                    || !after.role.rules.agree(with: before.role.rules, onClass: name.text)
            }.map { Array($0.utf8) })
    }

    /// The number of objects that it has found, or is to look at again.
    var objectCount: Int { entering.count + leaving.count + touched.count }

    /// The objects that were found, once the search is over.
    var moves: (leaving: [ObjectReference], entering: [ObjectReference]) { (leaving.sorted(), entering.sorted()) }

    /// The changesets for the objects that were found, without some of them.
    func changesets(
        in state: ObjectGraph, passingOver passedOver: Set<ObjectReference>
    ) throws(HistoryError) -> [[UInt8]] {
        let moves = moves
        return try state.changesets(
            leaving: moves.leaving.filter { !passedOver.contains($0) },
            entering: moves.entering.filter { !passedOver.contains($0) })
    }

    /// Searches until the step is over.
    /// - Parameters:
    ///   - state: the state at the end of the log.
    ///   - changes: the objects that were touched since there is a search.
    /// - Returns: whether everything is found.
    mutating func advance(
        in state: ObjectGraph, at head: ServerVersion, after changes: TouchedObjects,
        finding objects: inout ObjectIndex, until limit: StepLimit
    ) throws(HistoryError) -> Bool {
        while let name = classes.first {
            guard try search(name, in: state, finding: &objects, until: limit) else { return false }
            classes.removeFirst()
            way = nil
        }
        while true {
            while let object = touched.popFirst() {
                if let name = changes.className(of: object) {
                    let wasFound = hasFound(object)
                    try look(at: object, Choices(of: name, before, after, in: state), in: state)
                    if wasFound || hasFound(object) { finding = Self.newFinding }
                }
                if limit.isOver { return false }
            }
            touched = Deque(changes.touched(after: version))
            version = head
            if touched.isEmpty { return true }
        }
    }

    /// - Returns: whether the class is searched.
    private mutating func search(
        _ name: [UInt8], in state: ObjectGraph, finding objects: inout ObjectIndex, until limit: StepLimit
    ) throws(HistoryError) -> Bool {
        guard let number = state.classID(of: name) else { return true }
        if way == nil {
            let places = [before.place(in: name), after.place(in: name)]
            guard try objects.prepare(for: places, of: number, in: state, until: limit) else { return false }
            if before.role[name].read.isAll, after.role[name].read.isAll,
                let moved = try objects.difference(
                    from: before.queries[name], to: after.queries[name], of: number, in: state)
            {
                leaving.formUnion(moved.leaving)
                entering.formUnion(moved.entering)
                return true
            }
            way = try objects.objects(of: number, at: places, in: state).map { .objects($0[...]) } ?? .all(after: nil)
        }
        let choices = Choices(of: name, before, after, in: state)
        switch way {
        case .objects(var rest):
            try state.readTogether { () throws(HistoryError) in
                while let object = rest.popFirst() {
                    try look(at: object, choices, in: state)
                    if limit.isOver { break }
                }
            }
            way = .objects(rest)
            return rest.isEmpty
        case .all(var last):
            var isOver = false
            try state.visit(number, after: last, reading: choices.look(at:)) { object throws(HistoryError) in
                last = object.key
                try look(at: object, choices)
                isOver = limit.isOver
                return !isOver
            }
            way = .all(after: last)
            return !isOver
        case nil: return true
        }
    }

    /// Looks at an object that may have been looked at before.
    private mutating func look(
        at reference: ObjectReference, _ choices: Choices, in state: ObjectGraph
    ) throws(HistoryError) {
        entering.remove(reference)
        leaving.remove(reference)
        if let object = try state.read(reference, choices.look(at:)) { try look(at: object, choices) }
    }

    private func hasFound(_ object: ObjectReference) -> Bool { entering.contains(object) || leaving.contains(object) }

    private mutating func look(at object: StateObject, _ choices: Choices) throws(HistoryError) {
        guard let reference = object.reference else { return }
        switch (try choices.before.includes(object), try choices.after.includes(object)) {
        case (true, false): leaving.insert(reference)
        case (false, true): entering.insert(reference)
        case (true, true), (false, false): break
        }
    }

    /// The objects of a class in one state that each of the views shows.
    private struct Choices {
        let before, after: ViewChoice

        init(of name: [UInt8], _ before: ClientView, _ after: ClientView, in state: ObjectGraph) {
            self.before = ViewChoice(of: before, name, in: state)
            self.after = ViewChoice(of: after, name, in: state)
        }

        func look(at slot: Int) -> Bool { before.looks(at: slot) || after.looks(at: slot) }
    }
}

/// The objects of a class in one state that a view shows: to be asked about many of them.
private struct ViewChoice {
    private let filters: [ObjectFilter]
    private let choices: [ObjectChoice]

    init(of view: ClientView, _ className: [UInt8], in state: ObjectGraph) {
        filters = [view.queries[className], view.role[className].read]
        choices = filters.map { $0.choice(in: state) }
    }

    /// True if the value of the property with a slot decides.
    func looks(at slot: Int) -> Bool { filters.contains { $0.looks(at: slot) } }

    func includes(_ object: StateObject) throws(HistoryError) -> Bool {
        for choice in choices where try !choice.includes(object) { return false }
        return true
    }
}

extension ClientView {
    fileprivate var withoutLog: ClientView {
        var view = self
        view.log = ViewLog()
        return view
    }
}

/// The objects that commits have touched while somebody searches, each with the newest version of those commits.
struct TouchedObjects {
    private var objects: [ObjectReference: (name: [UInt8], version: ServerVersion)] = [:]

    mutating func record(_ step: LogStep) {
        guard let version = step.entries.last?.version else { return }
        for (object, name) in step.touched { objects[object] = (name, version) }
    }

    var count: Int { objects.count }

    func className(of object: ObjectReference) -> [UInt8]? { objects[object]?.name }

    func touched(after version: ServerVersion) -> [ObjectReference] {
        objects.filter { $0.value.version > version }.keys.sorted()
    }
}
