// A query as text that reads as the same query again: words as this library writes them, constants as they were
// written.

extension ParsedQuery: CustomStringConvertible {
    /// The text of this query; invalid UTF-8 in its strings is repaired.
    public var description: String { String(decoding: text, as: UTF8.self) }

    /// A text that reads as this query.
    public var text: [UInt8] {
        var writer = SyntaxWriter()
        writer.write(predicate)
        for suffix in suffixes { writer.write(suffix) }
        return writer.text
    }
}

/// Writes the parts of a query.
struct SyntaxWriter {
    private(set) var text: [UInt8] = []

    private mutating func write(_ words: String) { text += words.utf8 }

    private mutating func write<Item>(
        _ items: [Item], between separator: String, _ item: (inout SyntaxWriter, Item) -> Void
    ) {
        for (index, element) in items.enumerated() {
            if index > 0 { write(separator) }
            item(&self, element)
        }
    }

    mutating func write(_ predicate: Predicate) {
        switch predicate {
        case .always(let isTrue): write(isTrue ? "TRUEPREDICATE" : "FALSEPREDICATE")
        case .or(let parts): write(parts, between: " or ") { $0.write($1, isPart: { $0.isOr }) }
        case .and(let parts): write(parts, between: " and ") { $0.write($1, isPart: { $0.isOr || $0.isAnd }) }
        case .not(let inner):
            write("!")
            write(inner, isPart: { $0.isOr || $0.isAnd })
        case .comparison(let comparison):
            write(comparison.left)
            write(" \(comparison.relation.rawValue)\(comparison.ignoresCase ? "[c]" : "") ")
            write(comparison.right)
        case .between(let operand, let bounds):
            write(operand)
            write(" BETWEEN ")
            write(.list(bounds))
        case .geoWithin(let property, let shape):
            write(.property(property))
            write(" GEOWITHIN \(shape.text)")
        }
    }

    /// A part of a larger predicate, in parentheses if it would be read otherwise.
    private mutating func write(_ predicate: Predicate, isPart needsParentheses: (Predicate) -> Bool) {
        guard needsParentheses(predicate) else { return write(predicate) }
        write("(")
        write(predicate)
        write(")")
    }

    mutating func write(_ suffix: ParsedQuery.Suffix) {
        switch suffix {
        case .limit(let count): write(" LIMIT(\(count))")
        case .sort(let keys):
            write(" SORT(")
            write(keys, between: ", ") {
                $0.write($1.path)
                $0.write($1.isAscending ? " ASC" : " DESC")
            }
            write(")")
        case .distinct(let paths):
            write(" DISTINCT(")
            write(paths, between: ", ") { $0.write($1) }
            write(")")
        }
    }

    // MARK: Operands

    private mutating func write(_ operand: Operand) {
        switch operand {
        case .constant(let constant): write(constant)
        case .list(let list):
            if let quantifier = list.quantifier { write(quantifier.rawValue + " ") }
            if let argument = list.argument { return write("$\(argument)") }
            write("{")
            write(list.constants, between: ", ") { $0.write($1) }
            write("}")
        case .property(let property):
            if let quantifier = property.quantifier { write(quantifier.rawValue + " ") }
            write(property.path)
            switch property.part {
            case .values: break
            case .size: write(".@size")
            case .type: write(".@type")
            }
        case .aggregate(let aggregate):
            write(aggregate.path)
            write("." + aggregate.function.rawValue)
            if let property = aggregate.property {
                write(".")
                write(name: property)
            }
        case .arithmetic(let operation, let left, let right):
            write(left, inParentheses: operation.bindsTighter && left.isSum)
            write(" \(operation.rawValue) ")
            write(right, inParentheses: right.isArithmetic && (operation.bindsTighter || right.isSum))
        case .subquery(let subquery):
            write("SUBQUERY(")
            write(subquery.path)
            write(", ")
            text += subquery.variable
            write(", ")
            write(subquery.condition)
            write(").@size")
        }
    }

    private mutating func write(_ operand: Operand, inParentheses: Bool) {
        if inParentheses { write("(") }
        write(operand)
        if inParentheses { write(")") }
    }

    private mutating func write(_ constant: Constant) {
        switch constant.form {
        case .link(let className, _):
            write("obj(")
            let mark = className.quotationMark
            write(mark)
            text += className
            write(mark + ",")
            text += constant.text
            write(")")
        case .binary, .binaryBase64:
            write("binary(")
            text += constant.text
            write(")")
        default: text += constant.text
        }
    }

    // MARK: Paths

    private mutating func write(_ path: PropertyPath) {
        for (index, step) in path.steps.enumerated() {
            switch step {
            case .name(let name):
                if index > 0 { write(".") }
                write(name: name)
            case .index(0): write("[FIRST]")
            case .index(-1): write("[LAST]")
            case .index(let index): write("[\(index)]")
            case .every: write("[*]")
            case .key(let key):
                let mark = key.quotationMark
                write("[" + mark)
                text += key
                write(mark + "]")
            case .argument(let number): write("$K\(number)")
            }
        }
    }

    private mutating func write(name: [UInt8]) { text += name.escapedName }
}

extension [UInt8] {
    /// The quotation mark to put around the string: one that it does not contain without a backslash.
    fileprivate var quotationMark: String {
        var isEscaped = false
        for byte in self {
            if byte == UInt8(ascii: "'"), !isEscaped { return "\"" }
            isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
        }
        return "'"
    }

    /// The name, with everything escaped that a name cannot hold.
    var escapedName: [UInt8] {
        flatMap { byte -> [UInt8] in
            switch byte {
            case UInt8(ascii: " "): Array("\\ ".utf8)
            case 0x09: Array("\\t".utf8)
            case 0x0A: Array("\\n".utf8)
            case 0x0D: Array("\\r".utf8)
            default: [byte]
            }
        }
    }
}

extension Predicate {
    fileprivate var isAnd: Bool { if case .and = self { true } else { false } }
    fileprivate var isOr: Bool { if case .or = self { true } else { false } }
}

extension Operand {
    fileprivate var isArithmetic: Bool { if case .arithmetic = self { true } else { false } }

    fileprivate var isSum: Bool {
        if case .arithmetic(let operation, _, _) = self { !operation.bindsTighter } else { false }
    }
}

extension Arithmetic {
    fileprivate var bindsTighter: Bool { self == .multiply || self == .divide }
}

extension Shape {
    /// The text, with numbers in their shortest exact form.
    var text: String {
        switch self {
        case .box(let corner, let other): "GeoBox(\(corner.text), \(other.text))"
        case .circle(let center, let radius): "GeoCircle(\(center.text), \(radius.plainText))"
        case .polygon(let rings):
            "GeoPolygon(" + rings.map { "{" + $0.map(\.text).joined(separator: ", ") + "}" }.joined(separator: ", ")
                + ")"
        }
    }
}

extension Shape.Point {
    fileprivate var text: String {
        "[\(longitude.plainText), \(latitude.plainText)\(altitude.map { ", " + $0.plainText } ?? "")]"
    }
}

extension Double {
    /// The number without a point if it is integral.
    fileprivate var plainText: String {
        let text = description
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }
}
