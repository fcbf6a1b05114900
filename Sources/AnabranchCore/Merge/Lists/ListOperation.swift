/// One instruction on one list, reduced to what merging it with the other side's instructions needs.
///
/// The fields are those of Spec/Transform.md: `index` and `to` are list indices, `to` is counted after the moved
/// element was taken out, and `priorSize` is the length of the list before the instruction.
struct ListOperation: BitwiseCopyable, Equatable {
    enum Kind: UInt8, BitwiseCopyable {
        case insert
        case erase
        case update
        case move
        /// An instruction below the element `index`. It follows the element and dies with it; it has no prior size.
        case touch
    }

    /// Of an update: the kind of its value, as far as the rules ask. Of a touch: what its next path element selects
    /// from.
    enum Value: UInt8, BitwiseCopyable {
        case plain
        case object
        /// An update to a list, or a touch whose next path element is an integer.
        case list
        /// An update to a dictionary, or a touch whose next path element is a string.
        case dictionary
    }

    var index: UInt32
    var to: UInt32 = 0
    var priorSize: UInt32
    /// Rank of the changeset's origin tag; equal tags have equal ranks.
    var tag: UInt32
    var kind: Kind
    var value: Value = .plain
    var discarded = false
    /// Set as soon as one pair discarded or changed the operation.
    var dirty = false

    /// What the operation adds to the length of the list.
    var growth: Int {
        switch kind {
        case .insert: 1
        case .erase: -1
        case .update, .move, .touch: 0
        }
    }
}
