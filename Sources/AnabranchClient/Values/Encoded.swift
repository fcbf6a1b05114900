public import AnabranchCore
import Foundation

/// A value of any `Codable` type, stored as JSON in a `String` property: `var place: Encoded<Coordinates>?`. It is one
/// value: if two are written at the same time, one of them stays, as a whole.
public struct Encoded<Value: Codable & Sendable>: SyncedValue {
    /// The value that is stored as JSON.
    public var value: Value

    /// Wraps a value.
    public init(_ value: Value) { self.value = value }

    /// Reads the value itself.
    public init(from decoder: any Decoder) throws { value = try Value(from: decoder) }

    /// Writes the value itself.
    public func encode(to encoder: any Encoder) throws { try value.encode(to: encoder) }

    /// The shape of a property of this type.
    public static var _shape: _ValueShape { String._shape }

    /// Nil: no value is known, so a property of this type has to be optional.
    public static func _sample(_ isSecond: Bool, _ samples: _Samples) -> Encoded? { nil }

    /// Reads the stored value.
    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        let text = try String(value, classes)
        do {
            self.value = try JSONDecoder().decode(Value.self, from: Data(text.utf8))
        } catch {
            throw ObjectError(.badValue, "'\(text.prefix(100))' is not of type \(Value.self): \(error)")
        }
    }

    /// The value as it is written.
    public func _content() throws(ObjectError) -> _ValueContent {
        do {
            let encoder = JSONEncoder()
            encoder.outputFormatting = .sortedKeys
            return .value(.string(Array(try encoder.encode(value))))
        } catch {
            throw ObjectError(.badValue, "\(Value.self) cannot be encoded: \(error)")
        }
    }
}

extension Encoded: Equatable where Value: Equatable {}
extension Encoded: Hashable where Value: Hashable {}
