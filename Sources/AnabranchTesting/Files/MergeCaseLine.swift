import AnabranchCore

/// Writes what `MergeCase` reads.
package enum MergeCaseLine {
    /// The line, with its newline. The versions of each side count from 2.
    package static func text(name: String, local: [TaggedChangeset], incoming: [TaggedChangeset]) -> [UInt8] {
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

extension BenchmarkCase {
    /// The case as a line of the form that `MergeCase` reads.
    package func line() -> [UInt8] {
        let sides = tagged()
        return MergeCaseLine.text(name: name, local: sides.local, incoming: sides.incoming)
    }
}

extension RandomMerge {
    /// The case as a line of the form that `MergeCase` reads.
    package var line: String {
        let line = MergeCaseLine.text(
            name: "seed-\(seed)", local: WrittenSide(local, on: shape).changesets,
            incoming: WrittenSide(incoming, on: shape).changesets)
        return String(decoding: line.dropLast(), as: UTF8.self)
    }
}
