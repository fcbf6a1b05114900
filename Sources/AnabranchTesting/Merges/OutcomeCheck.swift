package import AnabranchCore

/// Checks that the outcomes of a recorded merge explain all that it has changed, and nothing else: followed one after
/// the other, they lead from the original form of each instruction to its final one.
package struct OutcomeCheck: Sendable {
    /// Something that the outcomes do not explain, or explain without need.
    package struct Gap: Error, CustomStringConvertible {
        package let description: String
    }

    /// The number of merges that were checked; those that are refused have no outcome.
    package private(set) var merges = 0
    /// The number of instructions that they have discarded, and of those that they have changed.
    package private(set) var discarded = 0
    package private(set) var changed = 0
    /// The number of times that each rule had an effect.
    package private(set) var rules: [MergeRule: Int] = [:]

    package init() {}

    private struct Place: Hashable {
        var changeset: ChangesetIndex
        var position: Int
    }

    /// Merges by the recorded strategy, and looks at the outcomes.
    ///
    /// - Parameter decode: Decodes both sides into an arena.
    /// - Returns: The arena afterwards; nil if the merge is refused.
    /// - Throws: `Gap`, or the error of `decode`.
    package mutating func check(
        _ decode: (inout ChangesetArena) throws -> (local: [ChangesetIndex], incoming: [ChangesetIndex])
    ) throws -> ChangesetArena? {
        var arena = ChangesetArena()
        let (local, incoming) = try decode(&arena)
        var texts: [Place: String] = [:]
        for changeset in local + incoming {
            for (position, instruction) in arena.ownInstructions(of: changeset).enumerated() {
                texts[Place(changeset: changeset, position: position)] = instruction.map { arena.text(of: $0) }
            }
        }
        let before = texts
        var merge = Merge(strategy: .recorded)
        do { try merge.run(local: local, incoming: incoming, in: &arena) } catch { return nil }
        for outcome in merge.outcomes {
            rules[outcome.rule, default: 0] += 1
            for side in [outcome.major, outcome.minor] { try follow(side, by: outcome.rule, &texts, in: arena) }
        }
        for changeset in local + incoming {
            for (position, instruction) in arena.ownInstructions(of: changeset).enumerated() {
                let place = Place(changeset: changeset, position: position),
                    text = instruction.map { arena.text(of: $0) }
                guard texts[place] == text else {
                    throw Gap(
                        description: """
                            \(before[place] ?? ""): the outcomes lead to \(texts[place] ?? "nothing"), the merge to \
                            \(text ?? "nothing")
                            """)
                }
                if text == nil { discarded += 1 } else if text != before[place] { changed += 1 }
            }
        }
        merges += 1
        return arena
    }

    private func follow(
        _ side: RuleOutcome.Side, by rule: MergeRule, _ texts: inout [Place: String], in arena: ChangesetArena
    ) throws {
        let text = arena.text(of: side.before), after = side.after.map { arena.text(of: $0) }
        guard side.isAffected == (text != after) else {
            throw Gap(description: "\(rule): \(text) became \(after ?? "nothing"), affected: \(side.isAffected)")
        }
        guard let position = side.position else { return }
        let place = Place(changeset: side.changeset, position: position)
        guard texts[place] == text else {
            throw Gap(description: "\(rule) begins with \(text), but there was \(texts[place] ?? "nothing")")
        }
        texts[place] = after
    }
}
