import AnabranchCore
import AnabranchSimperium

/// The type of a property of the form `typed`, or of its elements, as values from JSON are read
/// (`Spec/Simperium.md`, section 7).
struct PropertyType {
    /// Null for Mixed.
    private let type: PayloadType
    private let isNullable: Bool
    /// The class of linked or embedded objects.
    let target: ClassID?
    let isEmbedded: Bool
    /// True for the elements of a set, which are never collections.
    private let isInSet: Bool

    init(_ property: Property) {
        type = property.type
        isNullable = property.isNullable
        target = property.target
        isEmbedded = property.isEmbedded
        isInSet = property.collection == .set
    }

    private init(mixed: Void) { (type, isNullable, target, isEmbedded, isInSet) = (.null, true, nil, false, false) }

    /// That of the elements of a collection in a Mixed.
    static let mixed = PropertyType(mixed: ())

    var isMixed: Bool { type == .null }

    /// The value in a property; for an object or a list the beginning of one.
    /// - Parameter link: gives the link to the object with a key.
    /// - Throws: an error with the code 400 for a value of another type, and what `link` throws.
    func payload(_ value: JSONValue, _ link: (ClassID, String) throws -> Payload) throws -> Payload {
        switch (type, value) {
        case (_, .null) where isNullable: return .null
        case (.null, .bool(let flag)), (.bool, .bool(let flag)): return .bool(flag)
        case (.null, .integer(let number)), (.int, .integer(let number)): return .int(number)
        case (.null, .real(let number)), (.double, .real(let number)): return .double(number)
        case (.null, .largeInteger(let digits)): return .double(Double(digits) ?? 0)
        case (.null, .string(let text)), (.string, .string(let text)): return .string(Array(text.utf8))
        case (.null, .array) where !isInSet: return .list
        case (.null, .object) where !isInSet: return .dictionary
        case (.link, .object) where isEmbedded: return .objectValue
        case (.link, .string(let key)) where !isEmbedded: if let target { return try link(target, key) }
        case (.double, .integer(let number)):
            if let number = Double(exactly: number) { return .double(number) }
        case (.float, .integer(let number)):
            if let number = Float(exactly: number) { return .float(number) }
        case (.float, .real(let number)):
            let number = Float(number)
            if number.isFinite { return .float(number) }
        case (_, .string(let text)): if let payload = payload(text) { return payload }
        default: break
        }
        throw JSONDiffError(.malformed, "\(demand) is needed, and there is \(value.excerpt)")
    }

    /// The values that it takes, in words.
    private var demand: String {
        let values =
            switch type {
            case .int: "a whole number of 64 bits"
            case .bool: "true or false"
            case .string: "a text"
            case .double: "a number of the type double"
            case .float: "a number of the type float"
            case .decimal: "a text with a decimal number"
            case .timestamp: "a text with a date of ISO 8601 and its zone"
            case .binary: "a text in Base64"
            case .objectID: "a text of 24 hexadecimal digits"
            case .uuid: "a text with a UUID"
            case .link: isEmbedded ? "an object" : "a text with the key of an object"
            default: "a boolean, a number or a text"
            }
        return isNullable ? "\(values), or null," : values
    }

    private func payload(_ text: String) -> Payload? {
        switch type {
        case .decimal: Decimal128(text).map { .decimal($0) }
        case .timestamp: Timestamp(rfc3339: text.utf8).map { .timestamp($0) }
        case .objectID: ObjectID(text).map { .objectID($0) }
        case .uuid: UUIDBytes(text: text).map { .uuid($0) }
        case .binary: Base64.decode(text.utf8).map { .binary($0) }
        default: nil
        }
    }

    /// The value that takes the place of one that is removed: null, or that of a new object.
    var empty: Payload {
        if isNullable { return .null }
        return switch type {
        case .int: .int(0)
        case .bool: .bool(false)
        case .string: .string([])
        case .binary: .binary([])
        case .timestamp: .timestamp(Timestamp(seconds: 0, nanoseconds: 0))
        case .float: .float(0)
        case .double: .double(0)
        case .decimal: .decimal(0)
        case .objectID: ObjectID(Array(repeating: 0, count: 12)).map { .objectID($0) } ?? .null
        case .uuid: UUIDBytes(Array(repeating: 0, count: 16)).map { .uuid($0) } ?? .null
        default: .null
        }
    }
}

extension PrimaryKey {
    /// The key of a class that a text is; nil if it is none.
    init?(_ text: String, of property: Property?) {
        switch property?.type {
        case .string: self = .string(Array(text.utf8))
        case .int:
            guard let number = Int64(text) else { return nil }
            self = .int(number)
        case .objectID:
            guard let ident = ObjectID(text) else { return nil }
            self = .objectID(ident)
        case .uuid:
            guard let ident = UUIDBytes(text: text) else { return nil }
            self = .uuid(ident)
        default: return nil
        }
    }
}
