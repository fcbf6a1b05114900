import AnabranchCore
import Synchronization

/// Tells the observers of a replica about the parts of its commits that concern them.
final class ChangePublisher: Sendable {
    private let state = Mutex(State())

    private struct State {
        var observations: [Int: (observation: ChangeInbox, interest: Interest)] = [:]
        var lastNumber = 0
        var classes: [[UInt8]: ClassID] = [:]
        var byObject: [ObjectReference: Set<Int>] = [:]
        var byClass: [ClassID: Set<Int>] = [:]
        var unlimited: Set<Int> = []

        mutating func add(_ number: Int, _ interest: Interest) {
            switch interest {
            case .everything: unlimited.insert(number)
            case .classes(let names):
                for classID in names.compactMap({ classes[$0] }) { byClass[classID, default: []].insert(number) }
            case .object(let className, let key):
                guard let classID = classes[className] else { return }
                byObject[ObjectReference(classID: classID, key: key), default: []].insert(number)
            }
        }

        mutating func remove(_ number: Int, _ interest: Interest) {
            switch interest {
            case .everything: unlimited.remove(number)
            case .classes(let names):
                for classID in names.compactMap({ classes[$0] }) { byClass[classID]?.remove(number) }
            case .object(let className, let key):
                guard let classID = classes[className] else { return }
                let reference = ObjectReference(classID: classID, key: key)
                byObject[reference]?.remove(number)
                if byObject[reference]?.isEmpty == true { byObject[reference] = nil }
            }
        }

        func observers(of object: ObjectReference) -> Set<Int> {
            var numbers = unlimited
            if let some = byClass[object.classID] { numbers.formUnion(some) }
            if let some = byObject[object] { numbers.formUnion(some) }
            return numbers
        }

        func isObserved(_ object: ObjectReference) -> Bool {
            !unlimited.isEmpty || byClass[object.classID]?.isEmpty == false || byObject[object] != nil
        }
    }

    // MARK: Observers

    /// Adds an observer, which receives every change until it narrows its interest.
    /// - Returns: its number.
    func add(_ observation: ChangeInbox) -> Int {
        state.withLock { state in
            state.lastNumber += 1
            state.observations[state.lastNumber] = (observation, .everything)
            state.add(state.lastNumber, .everything)
            return state.lastNumber
        }
    }

    /// Changes the interest of an observer.
    func change(_ number: Int, to interest: Interest) {
        state.withLock { state in
            guard let known = state.observations[number] else { return }
            state.remove(number, known.interest)
            state.observations[number]?.interest = interest
            state.add(number, interest)
        }
    }

    func remove(_ number: Int) {
        state.withLock { state in
            guard let known = state.observations.removeValue(forKey: number) else { return }
            state.remove(number, known.interest)
        }
    }

    var isEmpty: Bool { state.withLock { $0.observations.isEmpty } }

    func isObserved(_ object: ObjectReference) -> Bool { state.withLock { $0.isObserved(object) } }

    // MARK: Commits

    /// Tells observers of a commit. Each gets everything that concerns it at once: nobody sees a part of a commit.
    func publish(_ noted: [NotedChange], isLocal: Bool) {
        let news = state.withLock { state in
            var news: [Int: [NotedChange]] = [:]
            for change in noted {
                for number in state.observers(of: change.object) { news[number, default: []].append(change) }
            }
            return news.compactMap { number, changes in state.observations[number].map { ($0.observation, changes) } }
        }
        for (observation, changes) in news { observation.add(changes, isLocal: isLocal) }
    }

    /// Has all observers look at everything, since the classes have changed or the state was replaced.
    func renew(_ classes: [ClassSchema]) {
        let observations = state.withLock { state in
            state.classes = Dictionary(uniqueKeysWithValues: classes.map { ($0.name, $0.number) })
            (state.byObject, state.byClass, state.unlimited) = ([:], [:], [])
            for (number, known) in state.observations { state.add(number, known.interest) }
            return state.observations.values.map(\.observation)
        }
        for observation in observations { observation.renew() }
    }

    /// Ends all observations, since the store is closed.
    func end() {
        for known in state.withLock({ Array($0.observations.values) }) { known.observation.end() }
    }
}
