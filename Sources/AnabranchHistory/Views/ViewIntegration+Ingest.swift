import AnabranchCore

/// Objects of asymmetric classes: what a client creates is taken in, and is no part of the log or the state.
extension ViewIntegration {
    /// Takes them out of a changeset. What it does to those that it does not create is dropped.
    /// - Returns: whether there was something to be taken out.
    /// - Throws: `writeNotAllowed` if the client may not create one: that cannot be undone.
    mutating func ingest(
        from changeset: ChangesetIndex, of arena: inout ChangesetArena, as sent: UploadedChangeset
    ) throws(HistoryError) -> Bool {
        let all = arena.touchedObjects(of: changeset)
        let classes = asymmetricClasses(among: Set(all.map(\.className)), with: changeset, of: arena)
        guard !classes.isEmpty else { return false }
        let objects = all.filter { classes.contains($0.className) }
        let graph = try graph(with: changeset, of: arena, without: all.filter { !classes.contains($0.className) })
        // Rules that name what the changeset adds can be used for it.
        let isLarger = graph.schemaSize > view.role.schemaSize
        let role = view.rules.flatMap { isLarger ? ViewRole($0, in: graph) : nil } ?? view.role
        var refusal = CompensatingWrite(version: 0, clientVersion: sent.cursor.clientVersion, objects: [])
        for object in objects where object.firstKind == .createObject {
            guard let found = try graph.read(try graph.reference(to: object)) else { continue }
            guard try role[object.className].insert.includes(found, in: graph) else {
                refusal.objects.append(CompensatingWrite.Object(refusing: object))
                continue
            }
            let json: [UInt8]
            do { json = try graph.canonicalJSON(of: found) } catch { throw HistoryError(readingStateFailed: error) }
            ingested.append(
                try IngestedObject(
                    UInt64(ingested.count), of: version + 1, object.className, object.key, time: time, user: file.user,
                    json: json))
        }
        if !refusal.objects.isEmpty {
            var error = HistoryError(.writeNotAllowed, "an object of an asymmetric class may not be created")
            error.refusal = refusal
            throw error
        }
        arena.discardInstructions(on: Set(objects.map(\.id)), of: changeset)
        return true
    }

    /// Also those that the changeset adds.
    private func asymmetricClasses(
        among names: Set<[UInt8]>, with changeset: ChangesetIndex, of arena: ChangesetArena
    ) -> Set<[UInt8]> {
        names.filter { name in
            if let known = state.graph.schema(ofClass: name) { return known.kind == .topLevelAsymmetric }
            return arena.instructions(of: changeset).contains {
                $0.kind == .addTable && $0.tableType == .topLevelAsymmetric
                    && Array(arena.bytes(of: $0.className)) == name
            }
        }
    }

    /// The state with what the changeset does to other objects than these.
    private func graph(
        with changeset: ChangesetIndex, of arena: ChangesetArena, without others: [TouchedObject]
    ) throws(HistoryError) -> ObjectGraph {
        var arena = arena, graph = state.graph
        arena.discardInstructions(on: Set(others.map(\.id)), of: changeset)
        do { try graph.apply(changeset, of: arena) } catch {
            guard error.code != .unavailable else { throw HistoryError(readingStateFailed: error) }
            throw HistoryError(.badChangeset, "objects of asymmetric classes cannot be made: \(error)")
        }
        return graph
    }
}
