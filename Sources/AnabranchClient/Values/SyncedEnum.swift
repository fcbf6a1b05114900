public import AnabranchCore

/// An enumeration that properties can have, stored as its raw value: `enum Priority: String, SyncedEnum { … }`. The raw
/// values are `String`, `Int` or another scalar. An object to which the property was added has the first case.
public protocol SyncedEnum: SyncedValue, RawRepresentable, CaseIterable where RawValue: _SyncedScalar {
    /// The value that stands for a raw value without a case, which a newer version of the application may have written.
    /// Nil, which is the default, makes reading it an error. An object that is edited keeps the raw value, unless the
    /// property itself is changed.
    static func unknown(_ rawValue: RawValue) -> Self?
}

extension SyncedEnum {
    /// Nil: a raw value without a case is an error.
    public static func unknown(_ rawValue: RawValue) -> Self? { nil }

    /// The shape of a property of this type.
    public static var _shape: _ValueShape { RawValue._shape }

    /// One of two sample values, by which the properties of a type are found.
    public static func _sample(_ isSecond: Bool, _ samples: _Samples) -> Self? {
        isSecond ? allCases.dropFirst().first : allCases.first
    }

    /// Reads the stored value.
    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        let rawValue = try RawValue(value, classes)
        let initial = rawValue == RawValue._samples.0 ? Self.allCases.first : nil
        guard let found = Self(rawValue: rawValue) ?? initial ?? Self.unknown(rawValue) else {
            throw ObjectError(.badValue, "\(Self.self) has no case for \(rawValue)")
        }
        self = found
    }

    /// The value as it is written.
    public func _content() throws(ObjectError) -> _ValueContent { try rawValue._content() }
}
