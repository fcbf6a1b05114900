import AnabranchCore

/// Writes a checked predicate as clients send it (`Spec/Query.md`, section 8).
struct CanonicalText {
    let classes: KnownClasses

    func text(of condition: Condition) -> String {
        switch condition {
        case .always(let isTrue): return isTrue ? "TRUEPREDICATE" : "FALSEPREDICATE"
        case .and(let parts): return parts.map(text).joined(separator: " and ")
        case .or(let parts, let isInPairs):
            let texts = parts.map(text)
            guard isInPairs else { return alternatives(texts) }
            return String(repeating: "(", count: texts.count - 1) + texts[0]
                + texts.dropFirst().map { " or \($0))" }.joined()
        case .not(let inner): return "!(\(text(of: inner)))"
        case .direct(let property, let test): return text(of: property, test)
        case .isOneOf(let property, let values, _): return text(of: property, isOneOf: values)
        case .between(let property, let low, let high):
            return "\(name(property.name)) between {\(text(of: low)), \(text(of: high))}"
        case .general(let sides):
            let isNullTest = Relation.equalities.contains(sides.relation) && (sides.left.isNull || sides.right.isNull)
            let ignoresCase = sides.ignoresCase && !isNullTest
            return "\(prefix(of: sides))\(text(of: sides.left)) \(sign(sides.relation, ignoresCase)) "
                + prefix(of: sides.right) + text(of: sides.right)
        case .geoWithin(let path, let shape, _, let quantifier):
            return prefix(quantifier) + "\(text(of: path)) GEOWITHIN \(text(of: shape))"
        case .filter(let property, let test):
            let constants = test.constants.map(text).joined(separator: ", ")
            return "\(name(property.name)) \(test.relation.rawValue) {\(constants)}"
        }
    }

    func text(of suffix: BoundSuffix) -> String {
        switch suffix {
        case .sort(let keys):
            " SORT(\(keys.map { text(of: $0.path) + ($0.isAscending ? " ASC" : " DESC") }.joined(separator: ", ")))"
        case .distinct(let paths): " DISTINCT(\(paths.map { text(of: $0) }.joined(separator: ", ")))"
        case .limit(let count): " LIMIT(\(count))"
        }
    }

    private func alternatives(_ parts: [String]) -> String { "(\(parts.joined(separator: " or ")))" }

    private func sign(_ relation: Relation, _ ignoresCase: Bool) -> String {
        (relation == .isIn ? Relation.equal : relation).rawValue + (ignoresCase ? "[c]" : "")
    }

    // MARK: A property of the object itself

    private func text(of property: Property, _ test: DirectTest) -> String {
        let name = name(property.name)
        switch (test.type, test.relation, test.constant) {
        // There is no strict relation with the same meaning.
        case (.int, .greaterOrEqual, .int(.min)) where !property.isNullable,
            (.int, .lessOrEqual, .int(.max)) where !property.isNullable:
            return "TRUEPREDICATE"
        case (_, .equal, .null), (_, .notEqual, .null):
            return "\(name) \(test.relation.rawValue) \(test.type == .mixed ? "null" : "NULL")"
        // Whole numbers are printed with the strict relation, and null against Mixed in small letters.
        case (.int, .greaterOrEqual, .int(let value)) where value > .min: return "\(name) > \(value - 1)"
        case (.int, .lessOrEqual, .int(let value)) where value < .max: return "\(name) < \(value + 1)"
        case (.mixed, _, .null): return "\(name) \(sign(test.relation, test.ignoresCase)) null"
        case (.mixed, _, _): return "\(name) \(sign(test.relation, test.ignoresCase)) \(shortText(of: test.constant))"
        default: return "\(name) \(sign(test.relation, test.ignoresCase)) \(text(of: test.constant))"
        }
    }

    /// Types that clients look up have a list without repetitions, the others a comparison for each value.
    private func text(of property: Property, isOneOf values: [StateValue]) -> String {
        let name = name(property.name)
        let texts = values.map(text)
        guard ![.int, .string, .objectID, .uuid].contains(property.type) else {
            var known: Set<String> = []
            return "\(name) IN {\(texts.filter { known.insert($0).inserted }.joined(separator: ", "))}"
        }
        if values.isEmpty { return "FALSEPREDICATE" }
        // A real number has no null of its own: clients print it like NaN.
        let isReal = property.type == .float || property.type == .double
        let parts = zip(values, texts).map { "\(name) == \(isReal && $0.isNull ? "nan" : $1)" }
        return parts.count == 1 ? parts[0] : alternatives(parts)
    }

    // MARK: Operands

    private func prefix(_ quantifier: Quantifier?) -> String { quantifier.map { $0.rawValue + " " } ?? "" }

    private func prefix(of operand: BoundOperand) -> String {
        if case .arithmetic = operand.kind { "" } else { prefix(operand.quantifier) }
    }

    /// The quantifier of the left side. ANY of some links being an object is the default meaning, and is printed
    /// without ANY.
    private func prefix(of sides: Sides) -> String {
        let left = sides.left
        let isLinkTest =
            left.path?.endsAtObjects == true && left.path?.steps.count == 1 && sides.right.constant != nil
        return isLinkTest && sides.relation == .equal && left.quantifier == .any ? "" : prefix(of: left)
    }

    private func text(of operand: BoundOperand) -> String {
        switch operand.kind {
        case .constant(let value):
            return operand.type == .typeOf ? typeName(value) : text(of: value)
        case .list(let values):
            return
                "{\(values.map { operand.type == .typeOf ? typeName($0) : shortText(of: $0) }.joined(separator: ", "))}"
        case .path(let path): return text(of: path)
        case .size(let path): return text(of: path) + (path.endsAtObjects ? ".@count" : ".@size")
        case .lengths(let path): return text(of: path) + ".length"
        case .typeOf(let path): return text(of: path) + ".@type"
        case .aggregate(let aggregate):
            let property = aggregate.property.map { "." + escaped($0.name) } ?? ""
            return "\(text(of: aggregate.path, marksEvery: false)).\(aggregate.function.rawValue)\(property)"
        case .arithmetic(let operation, let left, let right):
            return "(\(prefix(of: left))\(text(of: left)) \(operation.rawValue) \(prefix(of: right))\(text(of: right)))"
        case .subquery(let path, let variable, let condition):
            let name = String(decoding: variable, as: UTF8.self)
            let inner = CanonicalText(classes: classes, variable: name).text(of: condition)
            return "SUBQUERY(\(text(of: path)), \(name), \(inner)).@count"
        }
    }

    private func typeName(_ value: StateValue) -> String {
        if case .int(let bits) = value { "\"\(TypeSet(rawValue: bits).name)\"" } else { "NULL" }
    }

    // MARK: Paths

    /// The variable that paths begin with in a subquery.
    private var variable: String?

    init(classes: KnownClasses, variable: String? = nil) {
        self.classes = classes
        self.variable = variable
    }

    /// A name of a property, after the variable of a subquery.
    private func name(_ name: [UInt8]) -> String {
        (variable.map { $0 + "." } ?? "") + escaped(name)
    }

    private func escaped(_ name: [UInt8]) -> String { String(decoding: name.escapedName, as: UTF8.self) }

    /// - Parameter marksEvery: a dictionary as a whole is printed with `[*]`.
    private func text(of path: BoundPath, marksEvery: Bool = true) -> String {
        var parts: [String] = variable.map { [$0] } ?? []
        for step in path.steps {
            switch step {
            case .link(let property, let index): parts.append(escaped(property.name) + (index.map(text) ?? ""))
            case .backlinks(let className, let property):
                parts += ["@links", escaped(className), escaped(property.name)]
            }
        }
        switch path.end {
        case .objects: break
        case .keys(let property): parts += [escaped(property.name), "@keys"]
        case .property(let property, let indices):
            let isWhole = property.collection == .dictionary && indices.isEmpty && marksEvery
            parts.append(escaped(property.name) + (isWhole ? [.every] : indices).map(text).joined())
        }
        return parts.joined(separator: ".")
    }

    private func text(of index: BoundPath.Index) -> String {
        switch index {
        case .every: "[*]"
        case .element(0): "[FIRST]"
        case .element(-1): "[LAST]"
        case .element(let position): "[\(position)]"
        case .key(let key): "['\(String(decoding: key, as: UTF8.self))']"
        }
    }

    // MARK: Constants

    private func text(of value: StateValue) -> String {
        switch value {
        case .null: "NULL"
        case .int(let value): "\(value)"
        case .bool(let value): "\(value)"
        case .string(let bytes): text(ofBytes: bytes)
        case .binary(let bytes): "binary(\(text(ofBytes: bytes)))"
        case .timestamp(let value): "T\(value.seconds):\(value.nanoseconds)"
        case .float(let value): text(of: Double(value), digits: 9)
        case .double(let value): text(of: value, digits: 17)
        case .decimal(let value): "\(value)"
        case .objectID(let value): "oid(\(value))"
        case .uuid(let value): "uuid(\(value))"
        case .link(let object): text(of: object)
        // Never constants.
        case .object, .list, .set, .dictionary: "NULL"
        }
    }

    /// In lists and in comparisons with Mixed, clients print real numbers with six digits.
    private func shortText(of value: StateValue) -> String {
        switch value {
        case .float(let value): text(of: Double(value), digits: 6)
        case .double(let value): text(of: value, digits: 6)
        default: text(of: value)
        }
    }

    private func text(of object: ObjectReference) -> String {
        let className = classes.schema(of: object.classID)?.name ?? []
        return "obj(\"class_\(String(decoding: className, as: UTF8.self))\",\(text(of: StateValue(object.key))))"
    }

    /// In quotation marks if all characters can stand there, otherwise as base64: there are never escapes.
    private func text(ofBytes bytes: [UInt8]) -> String {
        let signs = #" {|}~:;<=>?@!#$%&()*+,-./[]^_`"#.utf8
        if let text = String(validating: bytes, as: UTF8.self),
            bytes.allSatisfy({ $0 >= 0x80 || $0.isAlphanumeric || signs.contains($0) })
        {
            return "\"\(text)\""
        }
        return "B64\"\(Base64.encode(bytes))\""
    }

    /// The shorter of fixed and scientific notation, to `digits` significant digits, without zeros at the end: `%g` of
    /// C.
    private func text(of value: Double, digits: Int) -> String {
        let sign = value.sign == .minus ? "-" : ""
        if value.isNaN { return sign + "nan" }
        if value.isInfinite { return sign + "inf" }
        let parts = DecimalParts(Decimal128(value, digits: digits))
        guard parts.coefficient > 0 else { return sign + "0" }
        let all = String(parts.coefficient)
        // Of the first digit.
        let exponent = parts.exponent + all.count - 1
        let kept = all.reversed().drop { $0 == "0" }.reversed().map(String.init).joined()
        if exponent < -4 || exponent >= digits {
            let mantissa = kept.prefix(1) + (kept.count > 1 ? "." + kept.dropFirst() : "")
            let magnitude = abs(exponent)
            return "\(sign)\(mantissa)e\(exponent < 0 ? "-" : "+")\(magnitude < 10 ? "0" : "")\(magnitude)"
        }
        if exponent < 0 { return sign + "0." + String(repeating: "0", count: -exponent - 1) + kept }
        let whole = kept.prefix(exponent + 1) + String(repeating: "0", count: max(0, exponent + 1 - kept.count))
        return sign + whole + (kept.count > exponent + 1 ? "." + kept.dropFirst(exponent + 1) : "")
    }

    // MARK: Regions

    /// A box is printed as the polygon that it is.
    private func text(of shape: Shape) -> String {
        switch shape {
        case .box(let corner, let other): text(of: .polygon([Shape.ring(ofBox: corner, other)]))
        case .circle(let center, let radius): "GeoCircle(\(text(of: center)), \(text(of: radius, digits: 6)))"
        case .polygon(let rings):
            "GeoPolygon("
                + rings.map { "{\($0.map(text).joined(separator: ", "))}" }.joined(separator: ", ") + ")"
        }
    }

    private func text(of point: Shape.Point) -> String {
        "[\(text(of: point.longitude, digits: 17)), \(text(of: point.latitude, digits: 17))]"
    }
}
