// Payloads that are not a number. Such a Float or Double differs from itself, so in the reference its changeset becomes
// dirty as soon as the instruction is merged with any other, whether a rule applies or not. Which instructions meet
// there depends on the reference's conflict groups, in which links join objects (`Spec/Transform.md`, sections 2.2 and
// 9). Only the dirty flags need this; what the instructions become does not.

/// Which instructions the reference makes meet.
struct NaNMeetings {
    /// EraseTable or EraseColumn on either side makes everything meet.
    private(set) var everythingMeets = false
    /// The group of each object, as a forest: objects that are linked are in one.
    private var parents: [Int]
    /// The roots of the groups in which some payload is not a number.
    private var affected: Set<Int> = []

    /// Nil if no instruction carries such a payload.
    init?(rows: [Int], columns: [Int], arena: ChangesetArena) {
        parents = Array(0..<arena.objects.count)
        var carriers: [ObjectKeyID] = []
        for index in [rows, columns].joined() {
            let instruction = arena.instructions[index]
            if instruction.holdsNaN { carriers.append(instruction.object) }
            if instruction.kind == .eraseTable || instruction.kind == .eraseColumn { everythingMeets = true }
            if instruction.type == .link, instruction.kind == .update || instruction.kind == .arrayInsert {
                let (object, target) = (shortenedRoot(of: instruction.object), shortenedRoot(of: instruction.linked))
                parents[object] = target
            }
        }
        guard !carriers.isEmpty else { return nil }
        // From here on each object is one step from its root, however long a chain the links make.
        for object in parents.indices { parents[object] = shortenedRoot(of: ObjectKeyID(UInt32(object))) }
        affected = Set(carriers.map { parents[Int($0.rawValue)] })
    }

    private mutating func shortenedRoot(of object: ObjectKeyID) -> Int {
        var member = Int(object.rawValue)
        while parents[member] != member {
            parents[member] = parents[parents[member]]
            member = parents[member]
        }
        return member
    }

    private func root(of object: ObjectKeyID) -> Int { parents[Int(object.rawValue)] }

    /// Whether the object is in a group with such a payload.
    func affects(_ instruction: Instruction) -> Bool {
        instruction.object != .none && affected.contains(root(of: instruction.object))
    }

    /// Marks the changesets of a pair that has just been merged.
    func markDirty(_ major: Instruction, _ minor: Instruction, of arena: inout ChangesetArena) {
        guard major.holdsNaN || minor.holdsNaN, meet(major, minor) else { return }
        // After a nested rule that discarded the inner instruction, the reference does not compare.
        let nestedDiscard =
            major.length < minor.length ? minor.isDiscarded : minor.length < major.length && major.isDiscarded
        guard !nestedDiscard else { return }
        if major.holdsNaN, !major.isDiscarded { arena.headers[Int(major.owner)].isDirty = true }
        if minor.holdsNaN, !minor.isDiscarded { arena.headers[Int(minor.owner)].isDirty = true }
    }

    private func meet(_ major: Instruction, _ minor: Instruction) -> Bool {
        if everythingMeets || major.kind.isSchema { return true }
        if minor.kind.isSchema { return false }
        return root(of: major.object) == root(of: minor.object)
    }
}

extension ChangesetArena {
    /// Merges as the index does, but visits every pair where it matters that a payload is not a number: inside the
    /// affected groups, and between a major schema instruction and the payloads themselves.
    mutating func mergeIndexed(rows: [Int], columns: [Int], nan: NaNMeetings) throws(TransformError) {
        guard !nan.everythingMeets else { return try mergeGrid(rows, columns, nan) }
        try mergeGrid(
            rows.filter { nan.affects(instructions[$0]) }, columns.filter { nan.affects(instructions[$0]) }, nan)
        try mergeSchema(rows, columns, nan)
        let (rows, columns) = (unaffected(rows, nan), unaffected(columns, nan))
        try mergeAtOnce { (arena) throws(TransformError) in try arena.mergeObjects(rows, columns) }
    }

    private func unaffected(_ indices: [Int], _ nan: NaNMeetings) -> [Int] {
        indices.filter { !nan.affects(instructions[$0]) && !instructions[$0].kind.isSchema }
    }

    private mutating func mergeSchema(
        _ rows: [Int], _ columns: [Int], _ nan: NaNMeetings
    ) throws(TransformError) {
        let carriers = columns.enumerated().filter { instructions[$0.element].holdsNaN }
        let schema = columns.enumerated().filter { instructions[$0.element].kind.isSchema }
        let declarations = Dictionary(grouping: schema) { instructions[$0.element].declared }
        for row in rows where instructions[row].kind.isSchema {
            let same = declarations[instructions[row].declared] ?? []
            try countPairs(same.count + carriers.count)
            let met = (same + carriers).sorted { $0.offset < $1.offset }.map(\.element)
            try mergeGrid([row], met, nan)
        }
    }
}
