public import AnabranchCore

/// A whole number whose changes are summed up: two devices that add 1 at the same time have added 2. Stored like an
/// `Int`.
///
///     var likes = Counter()
///     try tx.edit(Photo.self, id) { $0.likes += 1 }
public struct Counter: SyncedValue, Hashable, ExpressibleByIntegerLiteral, CustomStringConvertible {
    /// What it has come to.
    public var value: Int64

    /// A counter that begins with a value.
    public init(_ value: Int64 = 0) { self.value = value }

    /// A counter that begins with a value.
    public init(integerLiteral value: Int64) { self.value = value }

    /// Adds; it goes round at the end of 64 bits.
    public static func += (counter: inout Counter, amount: Int64) { counter.value &+= amount }

    /// Takes away; it goes round at the end of 64 bits.
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

    /// What its property is.
    public static var _shape: _ValueShape { Int64._shape }

    /// A value of its own, to find out what a type declares.
    public static func _sample(_ isSecond: Bool, _ samples: _Samples) -> Counter? { Counter(isSecond ? 1 : 0) }

    /// From what is stored.
    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        self.value = try Int64(value, classes)
    }

    /// The value as it is written.
    public func _content() -> _ValueContent { .sum(value) }
}
