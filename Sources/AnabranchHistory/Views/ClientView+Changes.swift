import AnabranchCore
import AnabranchRules

extension ClientView {
    /// Has the view show what other queries ask for, at a version of its own.
    ///
    /// - Parameter bootstrap: the number of the set that the client waits for; nil if it waits for none.
    mutating func change(
        to wanted: ViewQueries, at version: ServerVersion, in state: ObjectGraph, _ clientVersion: ClientVersion,
        bootstrap: UInt64?
    ) throws(HistoryError) {
        let before = self
        queries = wanted
        let names = wanted.classes(differingFrom: before.queries).map { Array($0.utf8) }
        var changesets = try changesets(since: before, ofClasses: names, in: state)
        // A bootstrap without any changeset never ends for the client.
        if changesets.isEmpty, bootstrap != nil, log.last?.version != version { changesets = [[]] }
        for changeset in changesets {
            appendSynthetic(version, clientVersion: clientVersion, changeset, bootstrap: bootstrap)
        }
        (changed, projected) = (version, version)
    }

    /// Has the view show what another role allows.
    ///
    /// - Parameter passedOver: objects of which the client is told in another way.
    mutating func change(
        to role: ViewRole, at version: ServerVersion, in state: ObjectGraph, _ clientVersion: ClientVersion,
        passingOver passedOver: Set<ObjectReference> = []
    ) throws(HistoryError) {
        let before = self
        self.role = role
        let names = queries.predicates.keys.sorted().filter { !role.rules.agree(with: before.role.rules, onClass: $0) }
        let changesets = try changesets(
            since: before, ofClasses: names.map { Array($0.utf8) }, in: state, passingOver: passedOver)
        for changeset in changesets { appendSynthetic(version, clientVersion: clientVersion, changeset) }
        if !changesets.isEmpty { try checkLogBytes() }
    }

    /// What takes objects into the view, and others out of it, that was another one before.
    private func changesets(
        since before: ClientView, ofClasses names: [[UInt8]], in state: ObjectGraph,
        passingOver passedOver: Set<ObjectReference> = []
    ) throws(HistoryError) -> [[UInt8]] {
        var leaving: [ObjectReference] = [], entering: [ObjectReference] = []
        for name in names {
            guard let number = state.schema(ofClass: name)?.number else { continue }
            try state.visit(number) { object throws(HistoryError) in
                guard let reference = object.reference, !passedOver.contains(reference) else { return }
                let wasIn = try before.includes(object, of: name, in: state)
                switch (wasIn, try includes(object, of: name, in: state)) {
                case (true, false): leaving.append(reference)
                case (false, true): entering.append(reference)
                case (true, true), (false, false): break
                }
            }
        }
        return try state.changesets(leaving: leaving, entering: entering)
    }
}

extension ObjectGraph {
    func visit(
        _ number: ClassID, _ body: (StateObject) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        var failure: HistoryError?
        do throws(ApplyError) {
            try forEachObject(of: number) { object throws(ApplyError) in
                do throws(HistoryError) { try body(object) } catch {
                    failure = error
                    throw ApplyError.unavailable(error.reason)
                }
            }
        } catch {
            throw failure ?? HistoryError(readingStateFailed: error)
        }
    }
}
