public import AnabranchCore

/// A whole number whose changes are summed up: two devices that add 1 at the same time have added 2. Stored like an
/// `Int`.
///
///     var likes = Counter()
///     try tx.edit(Photo.self, id) { $0.likes += 1 }
public struct Counter: SyncedValue, Hashable, ExpressibleByIntegerLiteral, CustomStringConvertible {
    /// The current value.
    public var value: Int64

    /// A counter that begins with a value.
    public init(_ value: Int64 = 0) { self.value = value }

    /// A counter that begins with a value.
    public init(integerLiteral value: Int64) { self.value = value }

    /// Adds; the value wraps around at 64 bits.
    public static func += (counter: inout Counter, amount: Int64) { counter.value &+= amount }

    /// Subtracts; the value wraps around at 64 bits.
    public static func -= (counter: inout Counter, amount: Int64) { counter.value &-= amount }

    /// Its digits.
    public var description: String { String(value) }

    /// Reads a whole number.
    public init(from decoder: any Decoder) throws { value = try decoder.singleValueContainer().decode(Int64.self) }

    /// Writes a whole number.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(value)
    }

    /// The shape of a property of this type.
    public static var _shape: _ValueShape { Int64._shape }

    /// One of two sample values, by which the properties of a type are found.
    public static func _sample(_ isSecond: Bool, _ samples: _Samples) -> Counter? { Counter(isSecond ? 1 : 0) }

    /// Reads the stored value.
    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        self.value = try Int64(value, classes)
    }

    /// The value as it is written.
    public func _content() -> _ValueContent { .sum(value) }
}
