import AnabranchCore

extension ClientView {
    /// Makes the view show what other queries ask for, with a version of its own for each changeset: so a long change
    /// can be sent in parts, and the client confirms each of them if they are not sent as a bootstrap.
    ///
    /// - Parameters:
    ///   - changesets: those that take objects out of the view, and others into it.
    ///   - version: the version of the first changeset.
    ///   - bootstrap: the number of the set that the client waits for; nil if it waits for none.
    ///   - shares: what they have in common with those of other views.
    mutating func change(
        to wanted: ViewQueries, with changesets: [[UInt8]], from version: ServerVersion,
        _ clientVersion: ClientVersion, bootstrap: UInt64?, shares: [ViewShare]
    ) {
        queries = wanted
        var changesets = changesets
        // A bootstrap without any changeset never ends for the client.
        if changesets.isEmpty, bootstrap != nil, log.entries.last?.version != version { changesets = [[]] }
        for (part, changeset) in changesets.enumerated() {
            let version = ServerVersion(rawValue: version.rawValue + UInt64(part))
            appendSynthetic(
                version, clientVersion: clientVersion, changeset, bootstrap: bootstrap,
                share: part < shares.count ? shares[part] : nil)
        }
        projected = max(version, log.entries.last?.version ?? 0)
        changed = projected
    }

    /// Makes the view show what another role allows.
    ///
    /// - Parameter passedOver: objects whose changes the client gets in another way.
    mutating func change(
        to role: ViewRole, at version: ServerVersion, in state: ObjectGraph, _ clientVersion: ClientVersion,
        finding objects: inout ObjectIndex, passingOver passedOver: Set<ObjectReference> = []
    ) throws(HistoryError) {
        var after = self
        after.role = role
        var search = ViewSearch(from: self, to: after, at: version)
        _ = try search.advance(in: state, at: version, after: TouchedObjects(), finding: &objects, until: .none)
        change(to: role, with: try search.changesets(in: state, passingOver: passedOver), at: version, clientVersion)
    }

    /// The same, when the changesets are known.
    ///
    /// - Parameters:
    ///   - changesets: those that take objects out of the view, and others into it.
    ///   - shares: what they have in common with those of other views.
    mutating func change(
        to role: ViewRole, with changesets: [[UInt8]], at version: ServerVersion, _ clientVersion: ClientVersion,
        shares: [ViewShare] = []
    ) {
        self.role = role
        for (part, changeset) in changesets.enumerated() {
            let share = part < shares.count ? shares[part] : nil
            appendSynthetic(version, clientVersion: clientVersion, changeset, share: share)
        }
    }
}

extension ObjectGraph {
    /// Visits the objects of a class whose keys are above one, in order, until `body` returns false.
    /// - Parameter isWanted: true for the slots of the values that are looked at.
    func visit(
        _ number: ClassID, after key: PrimaryKey?, reading isWanted: (Int) -> Bool,
        _ body: (StateObject) throws(HistoryError) -> Bool
    ) throws(HistoryError) {
        var failure: HistoryError?
        do throws(ApplyError) {
            try forEachObject(of: number, after: key, reading: isWanted) { object throws(ApplyError) in
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

    /// Calls `body`, which reads single objects, at most `count`.
    func readTogether(
        _ count: Int = .max, _ body: () throws(HistoryError) -> Void
    ) throws(HistoryError) {
        var failure: HistoryError?
        do throws(ApplyError) {
            try readTogether(count) { () throws(ApplyError) in
                do throws(HistoryError) { try body() } catch { failure = error }
            }
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
        if let failure { throw failure }
    }
}
