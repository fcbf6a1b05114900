public import AnabranchCore

/// A condition on the fields of an object, with the meaning that it has in MongoDB's query language: the language of
/// rules (`Spec/FlexibleRules.md`, section 3).
///
/// Apart from its operators it differs from a `Predicate` in how null, NaN, lists and values of another type compare.
public indirect enum Filter: Hashable, Sendable {
    /// Every object, or none.
    case always(Bool)
    /// Fulfilled by objects that fulfil all of the filters, one of them, or not the one.
    case and([Filter])
    case or([Filter])
    case not(Filter)
    /// A test of one field: of a list or a set one element is enough.
    case field(String, FilterTest)
    /// A predicate of the query language, with the meaning that it has there.
    case predicate(RulePredicate)

    /// True if both have the same meaning: names of fields are compared as they are.
    public static func == (left: Filter, right: Filter) -> Bool {
        switch (left, right) {
        case (.always(let flag), .always(let other)): flag == other
        case (.and(let parts), .and(let others)), (.or(let parts), .or(let others)): parts == others
        case (.not(let part), .not(let other)): part == other
        case (.field(let name, let test), .field(let otherName, let otherTest)):
            name.hasBytes(of: otherName) && test == otherTest
        case (.predicate(let rule), .predicate(let other)): rule == other
        default: false
        }
    }
}

/// A relation that a filter requires between a value and constants.
public struct FilterTest: Hashable, Sendable {
    /// How a value and a constant are related.
    public enum Relation: String, CaseIterable, Sendable {
        /// The relations as they are written. `$eq` is `$in` with one constant.
        case isIn = "$in"
        case less = "$lt"
        case lessOrEqual = "$lte"
        case greater = "$gt"
        case greaterOrEqual = "$gte"
        case exists = "$exists"
    }

    /// The relation that the value must have to one of the constants.
    public var relation: Relation
    /// The constants: any number of them for `isIn`, none for `exists`, and one for the others. A link is given as the
    /// key of its object.
    public var constants: [Payload]

    /// Creates a test; `exists` has no constants.
    public init(_ relation: Relation, _ constants: [Payload] = []) {
        self.relation = relation
        self.constants = constants
    }
}
