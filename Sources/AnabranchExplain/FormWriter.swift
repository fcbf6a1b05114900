import AnabranchCore

/// Writes the instructions of an explanation as they were at some moment of a merge, with other values if it is
/// anonymous.
struct FormWriter {
    private var arena: ChangesetArena
    private let anonymizer: Anonymizer?

    init(of arena: ChangesetArena, anonymizedBy anonymizer: Anonymizer?) {
        (self.arena, self.anonymizer) = (arena, anonymizer)
        if let anonymizer { self.arena.replaceValues { anonymizer($0) } }
    }

    /// - Parameter instruction: of the arena that the writer was made with.
    func form(of instruction: AnabranchCore.Instruction) -> Explanation.Form {
        guard let anonymizer else { return Explanation.Form(instruction, in: arena) }
        return Explanation.Form(arena.replacingNumber(of: instruction) { anonymizer($0) }, in: arena)
    }

    func author(_ author: Author) -> Author { anonymizer?.author(author) ?? author }
}
