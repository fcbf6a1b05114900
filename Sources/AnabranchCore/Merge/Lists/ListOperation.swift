/// One instruction on one list, reduced to what merging it with the other side's instructions needs
/// (`Spec/Transform.md`, section 13.1); or several inserts that stay together (`TypedRuns.swift`).
///
/// The fields are those of the chapter: `index` and `to` are list indices, `to` is counted after the moved element was
/// taken out, and `priorSize` is the length of the list before the instruction.
struct ListOperation: BitwiseCopyable, Equatable {
    enum Kind: UInt8, BitwiseCopyable {
        case insert
        case erase
        case update
        case move
        /// An instruction below the element `index`. It follows the element and dies with it; it has no prior size.
        case nested
    }

    var index: UInt32
    var to: UInt32 = 0
    var priorSize: UInt32
    /// Rank of the changeset's origin tag; equal tags have equal ranks.
    var tag: UInt32
    /// The number of elements that an insert inserts, one after the other; 1 for all others.
    var count: UInt32 = 1
    var kind: Kind
    /// Of an update: the kind of its value. Of a nested edit: what its next path element selects from.
    var value: ValueKind = .plain
    var discarded = false
    /// True once a pair has discarded or changed the operation.
    var dirty = false

    /// The number of elements that the operation adds to the list.
    var growth: Int {
        switch kind {
        case .insert: Int(count)
        case .erase: -1
        case .update, .move, .nested: 0
        }
    }

    /// True if it only shifts the elements after it.
    var isShift: Bool { kind == .insert || kind == .erase }
}

// Prior sizes follow from what is discarded, and are found for whole runs; a pair that changes one makes it dirty.
extension ListOperation: ListEdit {
    @inline(__always) var destination: UInt32 { to }

    @inline(__always)
    mutating func setIndex(_ index: UInt32) {
        if index != self.index {
            self.index = index
            dirty = true
        }
    }

    @inline(__always)
    mutating func setDestination(_ destination: UInt32) {
        if destination != to {
            to = destination
            dirty = true
        }
    }

    @inline(__always) mutating func listGrew() { dirty = true }
    @inline(__always) mutating func listShrank() { dirty = true }

    @inline(__always)
    mutating func discard() {
        discarded = true
        dirty = true
    }
}

extension ListOperation: ValueEdit {
    @inline(__always) var valueKind: ValueKind { value }
    /// False: an array Update is never a default.
    @inline(__always) var isDefault: Bool { false }
}
