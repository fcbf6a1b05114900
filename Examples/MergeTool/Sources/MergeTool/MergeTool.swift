import AnabranchCore

/// Two replicas write offline. Their changesets are merged, and both come to one state.
@main
struct MergeTool {
    static func main() throws {
        var base = ObjectGraph()
        _ = try base.write(as: 1) { tx in
            try tx.addClass("List", key: "_id", .int)
            try tx.addColumn("items", .string, collection: .list, to: "List")
            try tx.create("List", key: 1).list("items").append("milk")
        }

        var ann = Replica(of: base, ident: 2), ben = Replica(of: base, ident: 3)
        let first = try ann.write(at: 1000) { try $0.append("bread") }
        let second = try ben.write(at: 2000) { try $0.insert("oat", at: 0) }

        var arena = ChangesetArena()
        let local = try arena.decode(first.changeset, version: 2, tag: first.tag)
        let incoming = try arena.decode(second.changeset, version: 2, tag: second.tag)
        try arena.merge(local: [local], incoming: [incoming])
        print("what Ann applies:", arena.text(of: incoming))
        print("what Ben applies:", arena.text(of: local))
        try ann.graph.apply(incoming, of: arena)
        try ben.graph.apply(local, of: arena)

        let items = try ann.items()
        guard try items == ben.items() else { fatalError("the replicas differ") }
        print("both read:", items.joined(separator: ", "))
    }
}

/// A state, and who writes to it.
struct Replica {
    var graph: ObjectGraph
    let ident: ClientFileID

    init(of graph: ObjectGraph, ident: ClientFileID) { (self.graph, self.ident) = (graph, ident) }

    /// Edits the list in a transaction of its own.
    mutating func write(
        at time: ChangesetTime, _ edit: (DynamicList) throws -> Void
    ) throws -> (changeset: [UInt8], tag: OriginTag) {
        let written = try graph.write(as: ident) { tx in try edit(tx.objects("List")[0].list("items")) }
        return (written.changeset, OriginTag(timestamp: time, ident: ident))
    }

    func items() throws -> [String] {
        try graph.read { tx in try tx.objects("List")[0].list("items").values.compactMap(String.init(payload:)) }
    }
}
