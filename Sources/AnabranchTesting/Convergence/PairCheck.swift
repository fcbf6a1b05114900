import AnabranchCore

/// Two sides that change one state, and meet: what each of them ends up with.
struct PairCheck {
    enum Outcome: Equatable {
        case converged
        case diverged
        /// The merge, or one of the sides, refuses what the other has made.
        case refused(String)
    }

    /// The instructions of a side, in a changeset, and the state after them.
    struct Side {
        var changeset: [UInt8]
        var state: ObjectGraph
        var tag: OriginTag
    }

    let outcome: Outcome
    /// Whether the merge has changed or discarded anything.
    let hasEffect: Bool

    init(_ first: Side, _ second: Side) {
        var hasEffect = false
        do {
            let digests = try (
                Self.digest(of: first, after: second, &hasEffect), Self.digest(of: second, after: first, &hasEffect)
            )
            outcome = digests.0 == digests.1 ? .converged : .diverged
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
}
