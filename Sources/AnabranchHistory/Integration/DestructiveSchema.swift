import AnabranchCore

/// The rule for clients that take classes and columns away (`Spec/History.md`, section 16.2).
public enum DestructiveSchema: String, CaseIterable, Sendable {
    /// An upload with an EraseTable or EraseColumn is refused with `destructiveSchemaChange`.
    case refuse
    /// Clients may take them away, except by changesets that would end the process of every client that downloads them.
    case allow
}

extension ChangesetArena {
    /// - Throws: `destructiveSchemaChange` for an uploaded changeset that takes something away, if it may not.
    func checkErasures(in changeset: ChangesetIndex, by rule: DestructiveSchema) throws(HistoryError) {
        guard rule == .refuse, let erasure = firstErasure(in: changeset) else { return }
        throw HistoryError(
            .destructiveSchemaChange,
            "\(erasure) in changeset \(version(of: changeset)): classes and columns can be added here, not removed; "
                + "leave unused ones in the schema, or let the operator set destructive-schema: allow")
    }

    /// - Throws: `destructiveSchemaChange` for a changeset that must not enter the log as it is now.
    func checkReplacedClasses(in changeset: ChangesetIndex) throws(HistoryError) {
        guard let use = firstUseOfReplacedClass(in: changeset) else { return }
        throw HistoryError(
            .destructiveSchemaChange,
            "\(use) in changeset \(version(of: changeset)), which has removed the class and added it again: this ends "
                + "the process of every client; remove and add in one transaction, and use in another")
    }
}
