/// A token: its kind and its bytes in the text (`Spec/Query.md`, section 2).
struct Token {
    enum Kind {
        case plus, minus, times, divide
        case equal, notEqual, isIn, less, lessOrEqual, greater, greaterOrEqual
        case leftBracket, rightBracket, leftParenthesis, rightParenthesis, leftBrace, rightBrace, comma, dot
        case and, or, not, any, all, none
        case beginsWith, endsWith, contains, like, text, between, geoWithin
        case truePredicate, falsePredicate, sort, distinct, limit, ascending, descending
        case subquery, geoBox, geoPolygon, geoCircle, object, binary
        case size, max, min, sum, average, type, links, keysOrValues
        case first, last, sizeIndex, caseFlag
        case `true`, `false`, null, infinity, nan
        case uuid, objectID, date, objectKey, typedLink
        case natural, number, float, argument, pathArgument, user, base64, string, identifier
        case end
    }

    let kind: Kind
    let range: Range<Int>
}

extension Token.Kind {
    /// Words that are tokens of their own in exactly this form.
    static let exactWords: [String: Token.Kind] = [
        "in": .isIn, "IN": .isIn, "not": .not, "NOT": .not,
        "any": .any, "ANY": .any, "some": .any, "SOME": .any, "all": .all, "ALL": .all, "none": .none, "NONE": .none,
        "first": .first, "FIRST": .first, "last": .last, "LAST": .last, "size": .sizeIndex, "SIZE": .sizeIndex,
        "true": .true, "TRUE": .true, "false": .false, "FALSE": .false,
    ]

    /// Words that are tokens of their own in any case, by their lower case.
    static let words: [String: Token.Kind] = [
        "and": .and, "or": .or, "beginswith": .beginsWith, "endswith": .endsWith, "contains": .contains,
        "text": .text, "like": .like, "between": .between, "geowithin": .geoWithin,
        "truepredicate": .truePredicate, "falsepredicate": .falsePredicate,
        "sort": .sort, "distinct": .distinct, "limit": .limit, "binary": .binary, "bin": .binary, "obj": .object,
        "ascending": .ascending, "asc": .ascending, "descending": .descending, "desc": .descending,
        "subquery": .subquery, "geobox": .geoBox, "geopolygon": .geoPolygon, "geocircle": .geoCircle,
        "inf": .infinity, "infinity": .infinity, "nan": .nan, "null": .null, "nil": .null,
    ]

    /// The words with an `@` that follow a path, in exactly this form.
    static let pathWords: [(word: String, kind: Token.Kind)] = [
        ("@size", .size), ("@count", .size), ("@max", .max), ("@min", .min), ("@sum", .sum), ("@avg", .average),
        ("@links", .links), ("@type", .type), ("@keys", .keysOrValues), ("@values", .keysOrValues),
    ]

    /// Signs, the longest first.
    static let signs: [(text: String, kind: Token.Kind)] = [
        ("==", .equal), ("!=", .notEqual), ("<>", .notEqual), ("<=", .lessOrEqual), ("=<", .lessOrEqual),
        (">=", .greaterOrEqual), ("=>", .greaterOrEqual), ("&&", .and), ("||", .or), ("[c]", .caseFlag),
        ("=", .equal), ("<", .less), (">", .greater), ("!", .not), ("[", .leftBracket), ("]", .rightBracket),
        ("(", .leftParenthesis), (")", .rightParenthesis), ("{", .leftBrace), ("}", .rightBrace), (",", .comma),
        (".", .dot), ("+", .plus), ("-", .minus), ("*", .times), ("/", .divide),
    ]

    /// True if an operand can end with the token; words count as names.
    var endsOperand: Bool {
        switch self {
        case .plus, .minus, .times, .divide, .leftParenthesis, .leftBracket, .leftBrace, .comma, .dot, .any, .all,
            .none:
            false
        default: true
        }
    }

    /// True if the token can name a property, or a part of a path.
    var isName: Bool {
        switch self {
        case .identifier, .links, .keysOrValues, .beginsWith, .endsWith, .contains, .like, .between, .text, .sort,
            .distinct, .limit, .ascending, .descending, .isIn, .binary, .first, .last, .sizeIndex:
            true
        default: false
        }
    }
}
