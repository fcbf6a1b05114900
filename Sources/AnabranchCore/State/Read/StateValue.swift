/// The content of a place of an object, as it is read (`Spec/State.md`, A3 to A8).
public enum StateValue: Sendable {
    /// Values. A link is there whether its target exists or not.
    case null
    case int(Int64)
    case bool(Bool)
    case string([UInt8])
    case binary([UInt8])
    case timestamp(Timestamp)
    case float(Float)
    case double(Double)
    case decimal(Decimal128)
    case objectID(ObjectID)
    case uuid(UUIDBytes)
    case link(ObjectReference)
    /// An embedded object.
    case object(StateObject)
    /// Collections. A set's elements are in the order of `compare`.
    case list(StateList)
    case set(StateSet)
    case dictionary(StateDictionary)

    init(_ content: Content, at target: ClassID?) {
        switch content {
        case .null: self = .null
        case .int(let value): self = .int(value)
        case .bool(let value): self = .bool(value)
        case .string(let value): self = .string(value)
        case .binary(let value): self = .binary(value)
        case .timestamp(let value): self = .timestamp(value)
        case .float(let value): self = .float(value)
        case .double(let value): self = .double(value)
        case .decimal(let value): self = value == .nullMarker ? .null : .decimal(value)
        case .objectID(let value): self = .objectID(value)
        case .uuid(let value): self = .uuid(value)
        case .link(let object): self = .link(object)
        case .object(let fields):
            self = target.map { .object(StateObject(classID: $0, key: nil, fields: fields)) } ?? .null
        case .list(let elements): self = .list(StateList(elements: elements, target: target))
        case .set(let elements): self = .set(StateSet(elements: elements))
        case .dictionary(let entries): self = .dictionary(StateDictionary(entries: entries, target: target))
        // The maker of the object has read it already.
        case .stored: self = .null
        }
    }

    /// The value of a new object's property, as long as nothing is written there (`Spec/State.md`, A4).
    package static func initial(
        _ type: PayloadType, isNullable: Bool, _ collection: CollectionType
    ) -> StateValue {
        let place = Place(owner: ClassID(0), slot: 0, type: type, isNullable: isNullable, collection: collection)
        return StateValue(Column(name: [], place: place).initial, at: nil)
    }

    /// The value of a primary key; null for a GlobalKey, which no property shows.
    public init(_ key: PrimaryKey) {
        switch key {
        case .null, .globalKey: self = .null
        case .int(let value): self = .int(value)
        case .string(let value): self = .string(value)
        case .objectID(let value): self = .objectID(value)
        case .uuid(let value): self = .uuid(value)
        }
    }

    /// The order of values (`Spec/State.md`, A7): negative, zero or positive. All collections and embedded objects are
    /// equal, and the highest.
    public static func compare(_ left: StateValue, _ right: StateValue) -> Int {
        Content.compare(left.content, right.content)
    }

    /// A value with the same place in the order: without the contents of a collection or an embedded object, which can
    /// be large.
    package var ordered: StateValue {
        switch self {
        case .object, .list, .set, .dictionary: .list(StateList(elements: ContentList(), target: nil))
        default: self
        }
    }

    /// True if both hold the same, everything in them included.
    package func isSame(as other: StateValue?) -> Bool {
        switch (self, other) {
        case (.object(let left), .object(let right)?): left.fields.isSame(as: right.fields)
        case (.list(let left), .list(let right)?): left.elements.isSame(as: right.elements)
        case (.set(let left), .set(let right)?): left.elements.isSame(as: right.elements)
        case (.dictionary(let left), .dictionary(let right)?): left.entries.isSame(as: right.entries)
        case (_, let other?): content.isSame(as: other.content)
        case (_, nil): false
        }
    }

    private var content: Content {
        switch self {
        case .null: .null
        case .int(let value): .int(value)
        case .bool(let value): .bool(value)
        case .string(let value): .string(value)
        case .binary(let value): .binary(value)
        case .timestamp(let value): .timestamp(value)
        case .float(let value): .float(value)
        case .double(let value): .double(value)
        case .decimal(let value): .decimal(value)
        case .objectID(let value): .objectID(value)
        case .uuid(let value): .uuid(value)
        case .link(let object): .link(object)
        case .object, .list, .set, .dictionary: .list(ContentList())
        }
    }
}

/// The elements of a list, in order.
public struct StateList: Sendable {
    let elements: ContentList
    let target: ClassID?

    /// The number of elements, links to objects that do not exist included.
    public var count: Int { elements.count }

    /// The element at an index below `count`.
    public subscript(index: Int) -> StateValue { StateValue(elements.loadedElement(at: index).content, at: target) }

    /// All elements.
    public var values: [StateValue] { elements.loadedElements.map { StateValue($0.content, at: target) } }
}

/// The elements of a set.
public struct StateSet: Sendable {
    let elements: ContentSet

    /// The number of elements, links to objects that do not exist included.
    public var count: Int { elements.count }

    /// The element at an index below `count`, in the order of `StateValue.compare`.
    public subscript(index: Int) -> StateValue { StateValue(elements.loadedElement(at: index).content, at: nil) }

    /// All elements, in the order of `StateValue.compare`.
    public var values: [StateValue] { elements.loadedElements.map { StateValue($0.content, at: nil) } }
}

/// The entries of a dictionary.
public struct StateDictionary: Sendable {
    let entries: ContentDictionary
    let target: ClassID?

    /// The number of entries.
    public var count: Int { entries.count }

    /// The value of a key, in UTF-8; nil if there is no such entry.
    public subscript(key: [UInt8]) -> StateValue? {
        entries.findLoaded { $0.compare(key) }.element.map { StateValue($0.content, at: target) }
    }

    /// The keys, in the order of their bytes.
    public var keys: [[UInt8]] { entries.loadedElements.map(\.key) }

    /// The values, in the order of the keys.
    public var values: [StateValue] { entries.loadedElements.map { StateValue($0.content, at: target) } }
}

extension Decimal128 {
    /// A binary number, rounded half to even to some significant decimal digits, 1 to 17.
    ///
    /// Comparisons and arithmetic take 7 digits of a Float and 15 of a Double (`Spec/State.md`, A7).
    public init(_ value: Double, digits: Int) {
        guard let number = DecimalNumber(value, digits: digits) else {
            self = Decimal128(low: 0, high: 0x7C00_0000_0000_0000)
            return
        }
        let sign: UInt64 = number.isNegative ? 1 << 63 : 0
        guard !number.isInfinite else {
            self = Decimal128(low: 0, high: sign | 0x7800_0000_0000_0000)
            return
        }
        let exponent = number.coefficient == 0 ? 0 : number.exponent
        self = Decimal128(
            low: UInt64(truncatingIfNeeded: number.coefficient),
            high: sign | UInt64(exponent + Self.exponentBias) << 49 | UInt64(number.coefficient >> 64))
    }
}
