import AnabranchCore

/// Compares the states of two sides that change one state concurrently and merge.
struct PairCheck {
    enum Outcome: Equatable {
        case converged
        case diverged
        /// The form of an entry that released clients get leads to a different result than the entry.
        case divergedInReleasedForm
        /// The merge failed, or one of the sides refused what the other made.
        case refused(String)
    }

    /// The instructions of a side, in a changeset, and the state after them.
    struct Side {
        var changeset: [UInt8]
        /// See `releasedForm(of:endingAt:)`.
        var releasedForm: [UInt8]?
        var state: ObjectGraph
        var tag: OriginTag
    }

    let outcome: Outcome
    /// True if the merge changed or discarded anything.
    let hasEffect: Bool

    init(_ first: Side, _ second: Side) {
        var hasEffect = false
        do {
            let digests = try (
                Self.digest(of: first, after: second, &hasEffect), Self.digest(of: second, after: first, &hasEffect)
            )
            let isAlike = try Self.isAlikeReleased(first, after: second) && Self.isAlikeReleased(second, after: first)
            outcome = digests.0 == digests.1 ? isAlike ? .converged : .divergedInReleasedForm : .diverged
        } catch {
            outcome = .refused("\(error)")
        }
        self.hasEffect = hasEffect
    }

    /// The state of a side after it has merged, its own changes being major, and applied what the other made.
    private static func digest(of own: Side, after other: Side, _ hasEffect: inout Bool) throws -> StateDigest {
        var arena = ChangesetArena()
        try arena.decode(own.changeset, version: 2, tag: own.tag)
        try arena.decode(other.changeset, version: 2, tag: other.tag)
        try arena.merge(local: [0], incoming: [1])
        if arena.isDirty(0) || arena.isDirty(1) { hasEffect = true }
        var state = own.state
        try state.apply(1, of: arena)
        return try StateDigest(of: state)
    }

    // MARK: Released clients

    /// The state of a side in the end, and its own changes after the merge.
    private struct Merged: Equatable {
        var state: StateDigest
        var own: [UInt8]
    }

    private static let released = ClientCapabilities(overwritesDanglingLinks: false)

    /// The form in which released clients get a changeset; nil if they get it as it is.
    /// - Parameter state: The state after the changeset.
    static func releasedForm(of changeset: [UInt8], endingAt state: ObjectGraph) throws -> [UInt8]? {
        var arena = ChangesetArena()
        try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: 1))
        let adapter = ChangesetAdapter(for: released, with: state)
        guard case .changed(let form) = adapter.form(of: 0, in: &arena, isErased: { _, _ in false }) else { return nil }
        return form
    }

    /// True if a released client ends up as any other one. An entry that others cannot apply was refused before.
    private static func isAlikeReleased(_ own: Side, after other: Side) throws -> Bool {
        guard let form = other.releasedForm else { return true }
        return try merged(own, with: other.changeset, other.tag, refusing: [])
            == merged(own, with: form, other.tag, refusing: ApplyRefusals(of: released))
    }

    private static func merged(
        _ own: Side, with entry: [UInt8], _ tag: OriginTag, refusing refusals: ApplyRefusals
    ) throws -> Merged {
        var arena = ChangesetArena()
        try arena.decode(own.changeset, version: 2, tag: own.tag)
        try arena.decode(entry, version: 2, tag: tag)
        try arena.merge(local: [0], incoming: [1])
        var state = own.state
        _ = try state.applyTransactions([1], of: &arena, refusing: refusals) { _ in false }
        return Merged(state: try StateDigest(of: state), own: arena.encodedAnew(0))
    }
}
