// Objects without a primary key that were created before the server had given the file a number (`Spec/State.md`, A2).

extension ChangesetArena {
    /// Assigns the GlobalKeys of a changeset that have no owner to a client file, in keys and in links; if there is
    /// one, the changeset becomes dirty.
    ///
    /// - Precondition: the arena has no other changeset, and no merge has begun.
    /// - Returns: whether there was one.
    package mutating func adoptGlobalKeys(as ident: ClientFileID, in changeset: ChangesetIndex) -> Bool {
        precondition(count == 1, "the keys of all changesets of an arena are in one table")
        guard objects.adopt(ident) else { return false }
        self[changeset].isDirty = true
        return true
    }
}
