public import AnabranchCore
public import AnabranchHistory

/// The fate of one version of a log in its merge, and the reasons (`Spec/Explain.md`, section 2).
public struct Explanation: Sendable {
    /// The trust that an explanation deserves.
    public enum Certainty: String, Sendable {
        /// Merging again gave the bytes of the log.
        case exact
        /// The upload is no longer kept: what it lost before it entered the log is unknown.
        case uploadForgotten = "upload-forgotten"
        /// Merging again gave other bytes: in flexible sync the client was merged with its view of the log, which is
        /// not kept.
        case approximate
    }

    /// An instruction at one moment of the merge.
    public struct Form: Equatable, Sendable {
        /// The instruction in words, as `ChangesetArena.text(of:)` has them.
        public let text: String
        /// The same as JSON, as `ChangesetArena.json(of:)` has it.
        public let json: String
        /// The object that it is about; nil for an instruction on the schema.
        public let object: ObjectAddress?
        /// The property or column; nil if it names none.
        public let field: [UInt8]?
        /// The value that it gives to a whole property; nil if it does something else.
        let propertyValue: Payload?
    }

    /// An instruction as it was uploaded, and as it entered the log.
    public struct Instruction: Sendable {
        /// The instruction as its client uploaded it.
        public let uploaded: Form
        /// The instruction as it is in the log; nil if it was lost.
        public let logged: Form?
        /// True if it was lost to no rule of the merge: the rules of the app, or the view of the client, refused it.
        public let isRefused: Bool
    }

    /// One of the two instructions that met.
    public struct Side: Sendable {
        /// Before the rule.
        public let before: Form
        /// After it; nil if the rule discarded the instruction.
        public let after: Form?
        /// True if the rule changed or discarded it.
        public let isAffected: Bool
    }

    /// The effect of a rule on an instruction of the version and one that its client had not seen.
    public struct Effect: Sendable {
        /// The merge rule that was applied.
        public let rule: MergeRule
        /// The number of the version's own instruction among `instructions`, from 0; nil if the merge added it (R8).
        public let position: Int?
        /// The version's own instruction.
        public let own: Side
        /// The instruction that it met; what is lost of it is lost for the client of this version alone, in whose
        /// history the other one comes later.
        public let other: Side
        /// The author of the other one.
        public let author: Author
    }

    /// The author of the version.
    public let author: Author
    /// The version on which the changes were made; nil if the server made them.
    public let base: ServerVersion?
    /// The number of versions of others between the base and this one, which the client had not seen.
    public let unseenCount: Int
    /// True if the upload is kept because merging changed it. If not, merging did not change it, or it was too long
    /// ago: then what it lost is unknown.
    public let isUploadKept: Bool
    /// The trust that it deserves.
    public let certainty: Certainty
    /// The instructions that were uploaded, in order.
    public let instructions: [Instruction]
    /// The effects of rules, object by object, and for each in the order in which the instructions met.
    public let effects: [Effect]
    /// The objects that were refused or have left the view of the client, and why; in flexible sync only.
    public let decisions: [ViewDecision]
}

extension Explanation.Form {
    init(_ instruction: AnabranchCore.Instruction, in arena: ChangesetArena) {
        text = arena.text(of: instruction)
        json = arena.json(of: instruction)
        object = instruction.kind.isSchema ? nil : ObjectAddress(of: instruction, in: arena)
        let namesField = instruction.kind.hasPath || instruction.kind == .addColumn || instruction.kind == .eraseColumn
        let setsProperty =
            instruction.kind == .update && arena.path(of: instruction).isEmpty && !instruction.isDefault
            && instruction.type != .list && instruction.type != .dictionary && instruction.type != .objectValue
        // A payload can be written as nil itself: then it is null.
        propertyValue = setsProperty ? arena.payload(of: instruction) : .none
        field = namesField ? Array(arena.bytes(of: instruction.field)) : nil
    }
}
