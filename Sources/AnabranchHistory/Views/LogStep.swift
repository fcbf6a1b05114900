import AnabranchCore

/// The entries that one commit adds to the log of a flexible file, and the objects that they are about.
struct LogStep {
    let entries: [LogEntry]
    /// The states before it and after it.
    let before: ObjectGraph
    let after: ObjectGraph
    /// The objects that it is about.
    let subjects: Subjects

    /// The objects that changesets touch, with the names of their classes; and whether they say something about the
    /// schema, which concerns everybody.
    struct Subjects {
        var touched: [ObjectReference: [UInt8]] = [:]
        var changesSchema = false
    }

    var touched: [ObjectReference: [UInt8]] { subjects.touched }
    var changesSchema: Bool { subjects.changesSchema }

    init(_ entries: [LogEntry], about subjects: Subjects, from before: ObjectGraph, to after: ObjectGraph) {
        self.entries = entries
        self.subjects = subjects
        self.before = before
        self.after = after
    }

    init(_ entries: [LogEntry], from before: ObjectGraph, to after: ObjectGraph) throws(HistoryError) {
        var subjects = Subjects()
        for entry in entries {
            var arena = ChangesetArena()
            let index = try entry.decode(into: &arena)
            for object in arena.touchedObjects(of: index) {
                subjects.touched[try after.reference(to: object)] = object.className
            }
            subjects.changesSchema =
                subjects.changesSchema || arena.instructions(of: index).contains { $0.kind.isSchema }
        }
        self.init(entries, about: subjects, from: before, to: after)
    }
}
