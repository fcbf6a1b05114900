import AnabranchCore

/// A merge for the benchmark: the changesets of both sides by name.
struct BenchmarkCase {
    var name: String
    /// Milliseconds between the origin timestamps of two changesets of a side.
    var step = 2
    var make: () -> Sides

    struct Sides {
        var local: [ChangesetWriter]
        var incoming: [ChangesetWriter]
    }

    /// The case as a line of the form that `MergeCase` reads.
    func line() -> [UInt8] {
        let sides = make()
        return MergeCaseLine.text(
            name: name, local: tagged(sides.local, ident: 2, start: 1000),
            incoming: tagged(sides.incoming, ident: 3, start: 1001))
    }

    private func tagged(_ side: [ChangesetWriter], ident: UInt64, start: Int) -> [TaggedChangeset] {
        side.enumerated().map { position, changeset in
            let tag = OriginTag(timestamp: UInt64(start + position * step), ident: ident)
            return TaggedChangeset(bytes: changeset.bytes, tag: tag)
        }
    }
}

/// A changeset of a merge case.
struct TaggedChangeset {
    var bytes: [UInt8]
    var tag: OriginTag
}

/// Writes what `MergeCase` reads.
enum MergeCaseLine {
    /// The line, with its newline. The versions of each side count from 2.
    static func text(name: String, local: [TaggedChangeset], incoming: [TaggedChangeset]) -> [UInt8] {
        var line = Array(#"{"name":"\#(name)","at":1,"local":"#.utf8)
        append(local, to: &line)
        line += #","incoming":"#.utf8
        append(incoming, to: &line)
        line += "}\n".utf8
        return line
    }

    private static func append(_ side: [TaggedChangeset], to line: inout [UInt8]) {
        line += "[".utf8
        for (position, changeset) in side.enumerated() {
            if position > 0 { line += ",".utf8 }
            let tag = changeset.tag
            line += #"{"version":\#(2 + position),"base":1,"timestamp":\#(tag.timestamp),"origin":\#(tag.ident),"#.utf8
            line += #""hex":""#.utf8
            line += Hex.encode(changeset.bytes).utf8
            line += #""}"#.utf8
        }
        line += "]".utf8
    }
}
