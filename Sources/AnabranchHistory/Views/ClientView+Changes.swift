import AnabranchCore
import AnabranchRules

extension ClientView {
    /// Has the view show what other queries ask for, at a version of its own for each changeset: so what is long can be
    /// sent in parts, and the client confirms each of them if they are not sent as a bootstrap.
    ///
    /// - Parameters:
    ///   - moves: the objects that leave it, and those that enter it.
    ///   - version: the first one.
    ///   - bootstrap: the number of the set that the client waits for; nil if it waits for none.
    ///   - partBytes: at about how many bytes a changeset ends.
    mutating func change(
        to wanted: ViewQueries, moving moves: (leaving: [ObjectReference], entering: [ObjectReference]),
        from version: ServerVersion, in state: ObjectGraph, _ clientVersion: ClientVersion, bootstrap: UInt64?,
        partBytes: Int
    ) throws(HistoryError) {
        queries = wanted
        var changesets = try state.changesets(
            leaving: moves.leaving, entering: moves.entering, endingAt: partBytes)
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
        var leaving: [ObjectReference] = [], entering: [ObjectReference] = []
        for name in names.map({ Array($0.utf8) }) {
            guard let number = state.schema(ofClass: name)?.number else { continue }
            let places = [before.place(in: name), place(in: name)]
            let candidates = try objects.objects(of: number, at: places, in: state)
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
        for changeset in try state.changesets(leaving: leaving, entering: entering) {
            appendSynthetic(version, clientVersion: clientVersion, changeset)
        }
    }
}

extension ObjectGraph {
    /// - Parameter objects: those that are visited; nil for all of the class.
    func visit(
        _ number: ClassID, only objects: [ObjectReference]? = nil,
        _ body: (StateObject) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        guard let objects else {
            return try visit(number, after: nil) { object throws(HistoryError) in
                try body(object)
                return true
            }
        }
        try readTogether { () throws(HistoryError) in
            for reference in objects { if let object = try read(reference) { try body(object) } }
        }
    }

    /// Visits the objects of a class whose keys are above one, in order, until `body` returns false.
    func visit(
        _ number: ClassID, after key: PrimaryKey?, _ body: (StateObject) throws(HistoryError) -> Bool
    ) throws(HistoryError) {
        var failure: HistoryError?
        do throws(ApplyError) {
            try forEachObject(of: number, after: key) { object throws(ApplyError) in
                do throws(HistoryError) { return try body(object) } catch {
                    failure = error
                    return false
                }
            }
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
        if let failure { throw failure }
    }

    /// Calls `body`, which reads many single objects.
    func readTogether(_ body: () throws(HistoryError) -> Void) throws(HistoryError) {
        var failure: HistoryError?
        do throws(ApplyError) {
            try readTogether { () throws(ApplyError) in
                do throws(HistoryError) { try body() } catch { failure = error }
            }
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
        if let failure { throw failure }
    }
}
