import AnabranchCore
import AnabranchRules

extension ClientView {
    /// Has the view show what other queries ask for, at a version of its own for each changeset: so what is long can be
    /// sent in parts, and the client confirms each of them if they are not sent as a bootstrap.
    ///
    /// - Parameters:
    ///   - version: the first one.
    ///   - bootstrap: the number of the set that the client waits for; nil if it waits for none.
    ///   - partBytes: at about how many bytes a changeset ends.
    mutating func change(
        to wanted: ViewQueries, from version: ServerVersion, in state: ObjectGraph, _ clientVersion: ClientVersion,
        bootstrap: UInt64?, partBytes: Int, finding objects: inout ObjectIndex
    ) throws(HistoryError) {
        let before = self
        queries = wanted
        let names = wanted.classes(differingFrom: before.queries).map { Array($0.utf8) }
        var changesets = try changesets(
            since: before, ofClasses: names, in: state, finding: &objects, endingAt: partBytes)
        // A bootstrap without any changeset never ends for the client.
        if changesets.isEmpty, bootstrap != nil, log.entries.last?.version != version { changesets = [[]] }
        for (part, changeset) in changesets.enumerated() {
            let version = ServerVersion(rawValue: version.rawValue + UInt64(part))
            appendSynthetic(version, clientVersion: clientVersion, changeset, bootstrap: bootstrap)
        }
        projected = max(version, log.entries.last?.version ?? 0)
        changed = projected
    }

    /// Has the view show what another role allows.
    ///
    /// - Parameter passedOver: objects of which the client is told in another way.
    mutating func change(
        to role: ViewRole, at version: ServerVersion, in state: ObjectGraph, _ clientVersion: ClientVersion,
        finding objects: inout ObjectIndex, passingOver passedOver: Set<ObjectReference> = []
    ) throws(HistoryError) {
        let before = self
        self.role = role
        let names = queries.predicates.keys.sorted().filter { !role.rules.agree(with: before.role.rules, onClass: $0) }
        let changesets = try changesets(
            since: before, ofClasses: names.map { Array($0.utf8) }, in: state, finding: &objects,
            passingOver: passedOver)
        for changeset in changesets { appendSynthetic(version, clientVersion: clientVersion, changeset) }
    }

    /// What takes objects into the view, and others out of it, that was another one before.
    private func changesets(
        since before: ClientView, ofClasses names: [[UInt8]], in state: ObjectGraph, finding objects: inout ObjectIndex,
        passingOver passedOver: Set<ObjectReference> = [], endingAt bytes: Int = ObjectGraph.syntheticBytes
    ) throws(HistoryError) -> [[UInt8]] {
        var leaving: [ObjectReference] = [], entering: [ObjectReference] = []
        for name in names {
            guard let number = state.schema(ofClass: name)?.number else { continue }
            if passedOver.isEmpty, before.role[name].read.isAll, role[name].read.isAll,
                let moved = try objects.difference(
                    from: before.queries[name], to: queries[name], of: number, in: state)
            {
                leaving += moved.leaving
                entering += moved.entering
                continue
            }
            let candidates = try objects.objects(
                of: number, at: [before.place(in: name), place(in: name)], in: state)
            try state.visit(number, only: candidates) { object throws(HistoryError) in
                guard let reference = object.reference, !passedOver.contains(reference) else { return }
                let wasIn = try before.includes(object, of: name, in: state)
                switch (wasIn, try includes(object, of: name, in: state)) {
                case (true, false): leaving.append(reference)
                case (false, true): entering.append(reference)
                case (true, true), (false, false): break
                }
            }
        }
        return try state.changesets(leaving: leaving, entering: entering, endingAt: bytes)
    }
}

extension ObjectGraph {
    /// - Parameter objects: those that are visited; nil for all of the class.
    func visit(
        _ number: ClassID, only objects: [ObjectReference]? = nil,
        _ body: (StateObject) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        var failure: HistoryError?
        func visit(_ object: StateObject) throws(ApplyError) {
            do throws(HistoryError) { try body(object) } catch {
                failure = error
                throw ApplyError.unavailable(error.reason)
            }
        }
        do throws(ApplyError) {
            guard let objects else { return try forEachObject(of: number, visit) }
            try readTogether { () throws(ApplyError) in
                for reference in objects { if let object = try object(reference) { try visit(object) } }
            }
        } catch {
            throw failure ?? HistoryError(readingStateFailed: error)
        }
    }
}
