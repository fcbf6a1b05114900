public import AnabranchCore

/// An enumeration that properties can have, stored as its raw value: `enum Priority: String, SyncedEnum { … }`. The raw
/// values are `String`, `Int` or another scalar. An object to which the property was added has the first case.
public protocol SyncedEnum: SyncedValue, RawRepresentable, CaseIterable where RawValue: _SyncedScalar {
    /// What stands for a raw value that no case has, as a newer version of the application may have written it. Nil,
    /// which is the default, makes reading it an error. An object that is edited keeps a value that it shows in another
    /// way, unless the property itself is changed.
    static func unknown(_ rawValue: RawValue) -> Self?
}

extension SyncedEnum {
    /// A value that no case has is an error.
    public static func unknown(_ rawValue: RawValue) -> Self? { nil }

    /// What its property is.
    public static var _shape: _ValueShape { RawValue._shape }

    /// A value of its own, to find out what a type declares.
    public static func _sample(_ isSecond: Bool, _ samples: _Samples) -> Self? {
        isSecond ? allCases.dropFirst().first : allCases.first
    }

    /// From what is stored.
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
