/// A number of 64 bits that says what it numbers: a version, a client file, a session.
///
/// Numbers of two kinds cannot be compared or passed for each other, and at run time nothing is there but the number.
public protocol TypedNumber: RawRepresentable<UInt64>, Hashable, Comparable, Sendable, Codable,
    ExpressibleByIntegerLiteral, CustomStringConvertible
{
    /// Takes any number: whether it can be one of the kind is for the reader of a message or a record to check.
    init(rawValue: UInt64)
}

extension TypedNumber {
    /// Takes any number.
    @inlinable public init(integerLiteral number: UInt64) { self.init(rawValue: number) }

    /// The order of the numbers.
    @inlinable public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

    /// The number in decimal digits.
    @inlinable public var description: String { String(rawValue) }

    /// Takes a number of any integer type.
    /// - Precondition: it is not negative, and 64 bits hold it.
    @inlinable public init(_ number: some BinaryInteger) { self.init(rawValue: UInt64(number)) }

    /// The largest number that 64 bits hold.
    @inlinable package static var largest: Self { Self(rawValue: .max) }

    /// The number that is `right` larger. It wraps around at the end of 64 bits and does not trap: no message holds
    /// such a number, and a damaged record that does must not end the process.
    @inlinable package static func + (left: Self, right: UInt64) -> Self { Self(rawValue: left.rawValue &+ right) }

    @inlinable package static func += (left: inout Self, right: UInt64) { left = left + right }

    /// The number that is `right` smaller; it wraps around like `+`.
    @inlinable package static func - (left: Self, right: UInt64) -> Self { Self(rawValue: left.rawValue &- right) }
}
