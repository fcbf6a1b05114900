/// The position of a changeset among those of a `ChangesetArena`: 0 is the one that was decoded first.
public struct ChangesetIndex: RawRepresentable, Hashable, Comparable, Strideable, Sendable {
    /// The number of changesets that were decoded before it.
    public let rawValue: UInt32

    /// The index of the changeset before which `rawValue` others were decoded.
    @inlinable public init(rawValue: UInt32) { self.rawValue = rawValue }

    @inline(__always) init(_ position: Int) { rawValue = UInt32(truncatingIfNeeded: position) }

    /// Its position in an array that has one element per changeset.
    @inlinable public var position: Int { Int(rawValue) }

    /// The one that was decoded earlier comes first.
    @inlinable public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    /// The number of changesets from this one to `other`.
    @inlinable public func distance(to other: Self) -> Int { Int(other.rawValue) - Int(rawValue) }
    /// The index of the changeset that many further on.
    @inlinable public func advanced(by count: Int) -> Self { Self(rawValue: UInt32(Int(rawValue) + count)) }
}

extension ChangesetIndex: ExpressibleByIntegerLiteral {
    /// The changeset before which that many others were decoded.
    @inlinable public init(integerLiteral value: UInt32) { rawValue = value }
}

/// The position of an instruction among those of a `ChangesetArena`.
struct InstructionIndex: RawRepresentable, Hashable, Comparable, Strideable, Sendable {
    let rawValue: UInt32

    @inline(__always) init(rawValue: UInt32) { self.rawValue = rawValue }
    @inline(__always) init(_ position: Int) { rawValue = UInt32(truncatingIfNeeded: position) }

    /// Its position in an array that has one element per instruction.
    @inline(__always) var position: Int { Int(rawValue) }

    @inline(__always) static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    @inline(__always) func distance(to other: Self) -> Int { Int(other.rawValue) - Int(rawValue) }
    @inline(__always) func advanced(by count: Int) -> Self { Self(Int(rawValue) + count) }
}
