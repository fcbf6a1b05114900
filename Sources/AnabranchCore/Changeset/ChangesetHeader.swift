/// The record that a `ChangesetArena` keeps of one of its changesets.
struct ChangesetHeader: Sendable {
    let version: UInt64
    let tag: OriginTag
    private let spans: (bytes: Span, strings: Span, instructions: Span)
    /// The number of instructions that are not discarded, prepended ones included.
    var liveCount: Int
    /// True if the encoder would write exactly the bytes that were decoded.
    let isCanonical: Bool
    /// True if a merge has changed the changeset (`Spec/Transform.md`, section 2.2).
    var isDirty = false

    /// A range in as few bytes as will do: what an arena may hold is limited to 2^32 bytes.
    private struct Span: Sendable {
        var start: UInt32
        var end: UInt32

        init(_ range: Range<Int>) {
            start = UInt32(truncatingIfNeeded: range.lowerBound)
            end = UInt32(truncatingIfNeeded: range.upperBound)
        }

        @inline(__always) var range: Range<Int> { Int(start)..<Int(end) }
    }

    init(
        version: UInt64, tag: OriginTag, bytes: Range<Int>, strings: Range<Int>, instructions: Range<Int>,
        isCanonical: Bool
    ) {
        self.version = version
        self.tag = tag
        spans = (Span(bytes), Span(strings), Span(instructions))
        liveCount = instructions.count
        self.isCanonical = isCanonical
    }

    /// The range of its encoded form among the arena's bytes.
    @inline(__always) var bytes: Range<Int> { spans.bytes.range }
    /// The changeset's own string table: the names of the arena by local index.
    @inline(__always) var strings: Range<Int> { spans.strings.range }
    /// The changeset's own instructions, without those that a merge has prepended.
    @inline(__always) var instructions: Range<InstructionIndex> {
        InstructionIndex(rawValue: spans.instructions.start)..<InstructionIndex(rawValue: spans.instructions.end)
    }
}
