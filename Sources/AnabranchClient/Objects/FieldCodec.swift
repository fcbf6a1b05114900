import AnabranchCore

/// Reads and writes the values of a property whose type only its object knows.
///
/// Its state never changes, which the compiler cannot see in a class that others inherit from.
class FieldCodec: @unchecked Sendable {
    /// True if the property is declared with a question mark; the codec's own type is the one without it.
    let isOptional: Bool

    fileprivate init(isOptional: Bool) { self.isOptional = isOptional }

    /// True if a key path to the property has values of this type.
    func isType(_ type: any Any.Type) -> Bool { false }

    /// True if a value is the first, or the second, sample of the type. The only sample of a type is both.
    func isSample(_ value: Any, isSecond: Bool) -> Bool { false }
}

/// A codec of a type known at compile time, which a decoder looks up by that type.
class TypedCodec<Value>: FieldCodec, @unchecked Sendable {
    func value(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) -> Value {
        throw ObjectError(.badClass, "\(Value.self) is not a SyncedValue")
    }

    func content(of value: Value) throws(ObjectError) -> _ValueContent { .null }
}

final class ValueCodec<Value: SyncedValue>: TypedCodec<Value>, @unchecked Sendable {
    private let samples: [_ValueContent?]

    /// - Parameter samples: the first and the second one; nil if the type has none.
    init(isOptional: Bool, samples: [Value?]) throws(ObjectError) {
        self.samples = try samples.map { sample throws(ObjectError) in
            guard let sample else { return nil }
            return try sample._content()
        }
        super.init(isOptional: isOptional)
    }

    override func isType(_ type: any Any.Type) -> Bool { type == Value.self || isOptional && type == Value?.self }

    override func isSample(_ value: Any, isSecond: Bool) -> Bool {
        let sample = (isSecond ? samples[1] : nil) ?? samples[0] ?? .null
        guard let value = value as? Value else { return sample == .null }
        return (try? value._content()) == sample
    }

    override func value(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) -> Value {
        try Value(value, classes)
    }

    override func content(of value: Value) throws(ObjectError) -> _ValueContent { try value._content() }
}
