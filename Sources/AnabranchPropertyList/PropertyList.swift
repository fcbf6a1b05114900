import AnabranchCore

/// A property list: what its XML and binary forms have in common (`Spec/PropertyLists.md`).
///
/// Two are equal if they are of the same type and have the same content, bit by bit: texts by their bytes, reals by
/// their bits, so that 0 is not -0, and nan is nan.
public enum PropertyList: Sendable {
    /// A text.
    case string(String)
    /// An integer, −2^63 … 2^63−1.
    case integer(Int64)
    /// A 64-bit floating-point number. Those that are not finite are read, never written.
    case real(Double)
    /// True or false.
    case bool(Bool)
    /// A moment. One with a fraction of a second is read, never written.
    case date(PropertyListDate)
    /// Bytes.
    case data([UInt8])
    /// Values in order.
    case array([PropertyList])
    /// Values by their keys.
    case dictionary(PropertyListDictionary)
    /// An integer of 2^63 and more: read, never written.
    case largeInteger(UInt64)
    /// UTF-16 with unpaired surrogates, which is not valid text: in the binary form only.
    case illFormedString([UInt16])
    /// An invalid value, with the reason: read, never written.
    indirect case refused(PropertyListError)
}

extension PropertyList: Hashable {
    public static func == (left: PropertyList, right: PropertyList) -> Bool {
        switch (left, right) {
        case (.string(let text), .string(let other)): text.hasBytes(of: other)
        case (.integer(let number), .integer(let other)): number == other
        case (.real(let number), .real(let other)): number.bitPattern == other.bitPattern
        case (.bool(let flag), .bool(let other)): flag == other
        case (.date(let date), .date(let other)): date == other
        case (.data(let bytes), .data(let other)): bytes == other
        case (.array(let values), .array(let others)): values == others
        case (.dictionary(let values), .dictionary(let others)): values == others
        case (.largeInteger(let number), .largeInteger(let other)): number == other
        case (.illFormedString(let units), .illFormedString(let others)): units == others
        case (.refused(let error), .refused(let other)): error == other
        default: false
        }
    }

    public func hash(into hasher: inout Hasher) {
        switch self {
        case .string(let text): hasher.combine(ExactString(text))
        case .integer(let number): hasher.combine(number)
        case .real(let number):
            // Integers are hashed as integers.
            hasher.combine(true)
            hasher.combine(number.bitPattern)
        case .bool(let flag): hasher.combine(flag)
        case .date(let date): hasher.combine(date)
        case .data(let bytes): bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        case .array(let values): hasher.combine(values)
        case .dictionary(let values): hasher.combine(values)
        case .largeInteger(let number): hasher.combine(number)
        case .illFormedString(let units): hasher.combine(units)
        case .refused(let error): hasher.combine(error)
        }
    }
}

extension PropertyList {
    /// The text; nil for a value of another type.
    public var string: String? { if case .string(let text) = self { text } else { nil } }
    /// The integer; nil for a value of another type.
    public var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    /// The number; nil for a value of another type.
    public var real: Double? { if case .real(let number) = self { number } else { nil } }
    /// The flag; nil for a value of another type.
    public var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }
    /// The moment; nil for a value of another type.
    public var date: PropertyListDate? { if case .date(let date) = self { date } else { nil } }
    /// The bytes; nil for a value of another type.
    public var data: [UInt8]? { if case .data(let bytes) = self { bytes } else { nil } }
    /// The values; nil for a value of another type.
    public var array: [PropertyList]? { if case .array(let values) = self { values } else { nil } }
    /// The values by their keys; nil for a value of another type.
    public var dictionary: PropertyListDictionary? { if case .dictionary(let values) = self { values } else { nil } }
    /// The reason why it is not a value; nil for one.
    public var refusal: PropertyListError? { if case .refused(let error) = self { error } else { nil } }

    /// The value of a key; nil if there is none, or if this is not a dictionary.
    public subscript(key: String) -> PropertyList? { dictionary?[key] }
}

extension PropertyList: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(arrayLiteral elements: PropertyList...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, PropertyList)...) {
        self = .dictionary(PropertyListDictionary(elements) { _, last in last })
    }
}

// MARK: - Bytes

extension PropertyList {
    /// A way of writing a property list.
    public enum Form: String, CaseIterable, Sendable {
        /// XML of the document type that has carried property lists since 2001.
        case xml
        /// The binary form, whose first bytes are `bplist00`.
        case binary

        /// The form that bytes are in, if they are in any.
        public init(sniffing bytes: some Collection<UInt8>) {
            self = bytes.starts(with: BinaryReader.magic) ? .binary : .xml
        }
    }

    /// Reads a document in either form (`Spec/PropertyLists.md`, sections 2 and 3). An invalid value is kept as
    /// ``refused(_:)``.
    /// - Throws: what makes it unreadable as a whole: ``PropertyListError/Code/malformed`` or
    ///   ``PropertyListError/Code/limitExceeded``, with the place.
    public init(
        parsing bytes: some Collection<UInt8>, limits: PropertyListLimits = PropertyListLimits()
    ) throws(PropertyListError) {
        guard bytes.count <= limits.bytesMax else {
            throw PropertyListError(.limitExceeded, "\(bytes.count) bytes, of \(limits.bytesMax) that are allowed")
        }
        switch Form(sniffing: bytes) {
        case .xml:
            var reader = try XMLReader(Array(bytes), limits)
            self = try reader.document()
        case .binary:
            var reader = try BinaryReader(Array(bytes), limits)
            self = try reader.document()
        }
    }

    /// The document in a form; the same value gives the same bytes everywhere.
    /// - Throws: ``PropertyListError/Code/badValue`` with the path of a value that the form cannot carry, or
    ///   ``PropertyListError/Code/limitExceeded``.
    public func encoded(
        as form: Form, limits: PropertyListLimits = PropertyListLimits()
    ) throws(PropertyListError) -> [UInt8] {
        let bytes =
            switch form {
            case .xml: try XMLWriter.document(self, limits)
            case .binary: try BinaryWriter.document(self, limits)
            }
        guard bytes.count <= limits.bytesMax else {
            throw PropertyListError(.limitExceeded, "\(bytes.count) bytes, of \(limits.bytesMax) that are allowed")
        }
        return bytes
    }
}
