package import AnabranchCore

/// A test of a filter, prepared for a property (`Spec/FlexibleRules.md`, section 3).
struct FieldTest: Sendable {
    let relation: FilterTest.Relation
    let constants: [StateValue]
}

extension FilterTest.Relation {
    /// True if a value and a constant are so related. Values of different types are not related, except for numbers;
    /// null equals only null, and NaN only NaN.
    func holds(_ value: StateValue, _ constant: StateValue) -> Bool {
        if value.isNull || constant.isNull { return value.isNull && constant.isNull && holdsOfEquals }
        guard StateValue.areComparable(value, constant) else { return false }
        // A link is the key of its object, which has a type of its own.
        if case (.link(let left), .link(let right)) = (value, constant), left.key.type != right.key.type {
            return false
        }
        if value.isNaN || constant.isNaN { return value.isNaN && constant.isNaN && holdsOfEquals }
        let order = StateValue.order(value, constant)
        return order == 0 ? holdsOfEquals : order < 0 ? holdsOfSmaller : holdsOfGreater
    }

    private var holdsOfEquals: Bool { [.isIn, .lessOrEqual, .greaterOrEqual].contains(self) }
    private var holdsOfSmaller: Bool { self == .less || self == .lessOrEqual }
    private var holdsOfGreater: Bool { self == .greater || self == .greaterOrEqual }
}

extension FilterTest {
    /// True if one of several values, which belong to no object, fulfils the test.
    package func isFulfilled(byOneOf values: [Payload]) -> Bool {
        let constants = constants.compactMap(StateValue.init)
        return values.compactMap(StateValue.init).contains { value in
            relation == .exists || constants.contains { relation.holds(value, $0) }
        }
    }
}

extension StateValue {
    /// A value that belongs to no object; nil for links and for commands.
    package init?(_ payload: Payload) {
        switch payload {
        case .null: self = .null
        case .int(let value): self = .int(value)
        case .bool(let value): self = .bool(value)
        case .string(let value): self = .string(value)
        case .binary(let value): self = .binary(value)
        case .timestamp(let value): self = .timestamp(value)
        case .float(let value): self = .float(value)
        case .double(let value): self = .double(value)
        case .decimal(let value): self = .decimal(value)
        case .objectID(let value): self = .objectID(value)
        case .uuid(let value): self = .uuid(value)
        case .link, .objectValue, .dictionary, .list, .set, .erased: return nil
        }
    }

    /// The value in the form that instructions carry; nil for links, objects and collections.
    package var payload: Payload? {
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
        case .link, .object, .list, .set, .dictionary: nil
        }
    }
}
