import AnabranchCore

/// The entries that one commit adds to the log of a flexible file, and the objects that they are about.
struct LogStep {
    let entries: [LogEntry]
    /// The states before it and after it.
    let before: ObjectGraph
    let after: ObjectGraph
    /// The objects that it touches, with the names of their classes.
    let touched: [ObjectReference: [UInt8]]
    /// True if it says something about the schema, which concerns everybody.
    let changesSchema: Bool

    init(_ entries: [LogEntry], from before: ObjectGraph, to after: ObjectGraph) throws(HistoryError) {
        var touched: [ObjectReference: [UInt8]] = [:], changesSchema = false
        for entry in entries {
            var arena = ChangesetArena()
            let index = try entry.decode(into: &arena)
            for object in arena.touchedObjects(of: index) {
                touched[try after.reference(to: object)] = object.className
            }
            changesSchema = changesSchema || arena.instructions(of: index).contains { $0.kind.isSchema }
        }
        self.entries = entries
        self.before = before
        self.after = after
        self.touched = touched
        self.changesSchema = changesSchema
    }
}
