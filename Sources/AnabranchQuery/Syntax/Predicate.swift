/// A query as it is written: a predicate and its suffixes (`Spec/Query.md`, section 3).
public struct ParsedQuery: Hashable, Sendable {
    /// The condition that objects must fulfil.
    public var predicate: Predicate
    /// The suffixes, in the order in which they are applied.
    public var suffixes: [Suffix]

    /// Creates a query from its parts.
    public init(_ predicate: Predicate, _ suffixes: [Suffix] = []) {
        self.predicate = predicate
        self.suffixes = suffixes
    }

    /// `SORT`, `DISTINCT` and `LIMIT`.
    public enum Suffix: Hashable, Sendable {
        /// Sorts by the values of paths, the first path first.
        case sort([SortKey])
        /// Keeps the first of the objects with equal values.
        case distinct([PropertyPath])
        /// Keeps at most this many objects.
        case limit(Int)
    }

    /// A value by which objects are sorted.
    public struct SortKey: Hashable, Sendable {
        /// The path to the value.
        public var path: PropertyPath
        /// True if small values come first.
        public var isAscending: Bool
    }
}

/// A condition as it is written.
public indirect enum Predicate: Hashable, Sendable {
    /// `TRUEPREDICATE` or `FALSEPREDICATE`.
    case always(Bool)
    /// Two or more conditions, joined from left to right. One of them that is joined alike stands in parentheses; it is
    /// not the first one, since parentheses around that change nothing.
    case and([Predicate])
    case or([Predicate])
    /// The opposite of a condition.
    case not(Predicate)
    /// Two operands.
    case comparison(Comparison)
    /// A value within two bounds, both included.
    case between(Operand, ConstantList)
    /// A point in a region.
    case geoWithin(PropertyOperand, Shape)
}

/// Two operands and how they are related.
public struct Comparison: Hashable, Sendable {
    /// The operand that is searched or compared.
    public var left: Operand
    /// The relation that both must have.
    public var relation: Relation
    /// True with `[c]`.
    public var ignoresCase: Bool
    /// The operand that it is compared with: the pattern of a string operator.
    public var right: Operand
}

/// The relation of two operands.
public enum Relation: String, CaseIterable, Sendable {
    /// As they are written.
    case equal = "=="
    case notEqual = "!="
    case isIn = "IN"
    case less = "<"
    case lessOrEqual = "<="
    case greater = ">"
    case greaterOrEqual = ">="
    case beginsWith = "BEGINSWITH"
    case endsWith = "ENDSWITH"
    case contains = "CONTAINS"
    case like = "LIKE"
    case text = "TEXT"
}

/// The number of several values that must fulfil a condition; `SOME` is `any`.
public enum Quantifier: String, Sendable {
    /// As they are written.
    case any = "ANY"
    case all = "ALL"
    case none = "NONE"
}

/// One side of a comparison.
public indirect enum Operand: Hashable, Sendable {
    /// The kinds of operands.
    case constant(Constant)
    case list(ConstantList)
    case property(PropertyOperand)
    case aggregate(Aggregate)
    case arithmetic(Arithmetic, Operand, Operand)
    case subquery(Subquery)
}

/// An operation on numbers.
public enum Arithmetic: String, CaseIterable, Sendable {
    /// As they are written.
    case add = "+"
    case subtract = "-"
    case multiply = "*"
    case divide = "/"
}

/// A constant as it is written: its meaning depends on what it is compared with.
public struct Constant: Hashable, Sendable {
    /// The way in which a constant is written.
    public enum Form: Hashable, Sendable {
        /// Single tokens.
        case integer, float, infinity, nan, string, base64, date, uuid, objectID, null
        case `true`, `false`
        /// `binary("…")` and `binary(B64"…")`.
        case binary, binaryBase64
        /// A numbered argument, such as `$0`.
        case argument
        /// `$user.id`, in rules.
        case user
        /// `O1` and `L1:2`: numbers of one file of the client.
        case objectKey, typedLink
        /// `obj("Class", key)`.
        indirect case link(className: [UInt8], key: Form)
    }

    /// The way in which the constant is written.
    public var form: Form
    /// The token; for a link or a binary the one of the key or the bytes.
    public var text: [UInt8]
    let place: Place
}

/// Constants in braces, or an argument that stands for a list of them after a quantifier.
public struct ConstantList: Hashable, Sendable {
    /// The constants in braces; empty if an argument stands for them.
    public var constants: [Constant]
    /// The number of them that must fulfil the comparison.
    public var quantifier: Quantifier?
    /// The number of an argument in place of constants.
    public var argument: Int?
    let place: Place
}

/// A path from an object to a property: its own, or one of linked or embedded objects.
public struct PropertyPath: Hashable, Sendable {
    /// The steps from the object on.
    public var steps: [Step]
    let place: Place

    /// A part of a path.
    public enum Step: Hashable, Sendable {
        /// A property, the key of a dictionary, `@links`, `@keys` or `@values`.
        case name([UInt8])
        /// An element from 0, −1 for the last one.
        case index(Int)
        /// Every element of a list: `[*]`.
        case every
        /// The entry of a dictionary: `['key']`.
        case key([UInt8])
        /// `$K0`, which an argument stands for.
        case argument(Int)
    }
}

/// The values at the end of a path, their number or length, or their type.
public struct PropertyOperand: Hashable, Sendable {
    /// The part of the values that is compared.
    public enum Part: Hashable, Sendable {
        /// The values themselves, their number or length, or their type.
        case values, size, type
    }

    /// The path to the values.
    public var path: PropertyPath
    /// The number of them that must fulfil the comparison.
    public var quantifier: Quantifier?
    /// The part of them that is compared.
    public var part: Part
}

/// `path.@max`, or `path.@max.property` over linked objects.
public struct Aggregate: Hashable, Sendable {
    /// The calculation that is made with the values.
    public enum Function: String, Sendable {
        /// As they are written.
        case min = "@min"
        case max = "@max"
        case sum = "@sum"
        case average = "@avg"
    }

    /// The path to a collection.
    public var path: PropertyPath
    /// The calculation that is made with its values.
    public var function: Function
    /// The property of the linked objects.
    public var property: [UInt8]?
}

/// `SUBQUERY(path, $x, condition).@size`.
public struct Subquery: Hashable, Sendable {
    /// The path to several objects.
    public var path: PropertyPath
    /// The name that the condition gives to each of them, with its `$`.
    public var variable: [UInt8]
    /// The condition for an object to be counted.
    public var condition: Predicate
}

/// A region of the earth.
public enum Shape: Hashable, Sendable {
    /// A place on the earth, in degrees.
    public struct Point: Hashable, Sendable {
        /// The longitude in degrees, −180 … 180.
        public var longitude: Double
        /// The latitude in degrees, −90 … 90.
        public var latitude: Double
        /// The altitude, which is read and ignored.
        public var altitude: Double?
    }

    /// Between two opposite corners.
    case box(Point, Point)
    /// A radius in radians.
    case circle(Point, radius: Double)
    /// An outer ring and holes.
    case polygon([[Point]])
}

extension Sequence<UInt8> {
    /// The number of `$0` or `$K0`.
    var argumentNumber: Int { Int(String(decoding: filter(\.isDigit), as: UTF8.self)) ?? .max }
}

/// The place of something in a text, in bytes. All places are equal, so that equal queries are.
struct Place: Hashable, Sendable {
    let offset: Int

    init(_ offset: Int) { self.offset = offset }

    static func == (left: Place, right: Place) -> Bool { true }
    func hash(into hasher: inout Hasher) {}
}

extension Operand {
    /// True for a subquery or a calculation with one.
    var holdsSubquery: Bool {
        switch self {
        case .constant, .list, .property, .aggregate: false
        case .arithmetic(_, let left, let right): left.holdsSubquery || right.holdsSubquery
        case .subquery: true
        }
    }

    /// True if there are only constants.
    var isConstant: Bool {
        switch self {
        case .constant, .list: true
        case .arithmetic(_, let left, let right): left.isConstant && right.isConstant
        case .property, .aggregate, .subquery: false
        }
    }

    /// The place where the operand begins.
    var offset: Int {
        switch self {
        case .constant(let constant): constant.place.offset
        case .list(let list): list.place.offset
        case .property(let property): property.path.place.offset
        case .aggregate(let aggregate): aggregate.path.place.offset
        case .arithmetic(_, let left, _): left.offset
        case .subquery(let subquery): subquery.path.place.offset
        }
    }
}
