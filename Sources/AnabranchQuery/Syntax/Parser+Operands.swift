// Operands: arithmetic, values, lists, paths (`Spec/Query.md`, section 3).

extension Parser {
    mutating func expression() throws(QueryError) -> Operand {
        var left = try term()
        while let operation = sign(.plus, .add) ?? sign(.minus, .subtract) {
            _ = take()
            try countOperation()
            left = .arithmetic(operation, left, try term())
        }
        return left
    }

    private mutating func term() throws(QueryError) -> Operand {
        var left = try factor()
        while let operation = sign(.times, .multiply) ?? sign(.divide, .divide) {
            _ = take()
            try countOperation()
            left = .arithmetic(operation, left, try factor())
        }
        return left
    }

    private func sign(_ kind: Token.Kind, _ operation: Arithmetic) -> Arithmetic? { next == kind ? operation : nil }

    private mutating func factor() throws(QueryError) -> Operand {
        guard accept(.leftParenthesis) else { return try value() }
        let operand = try nested { parser throws(QueryError) in try parser.expression() }
        try expect(.rightParenthesis, as: "\")\"")
        return operand
    }

    mutating func value() throws(QueryError) -> Operand {
        if next == .leftBrace { return .list(try list()) }
        if let quantifier = Quantifier(next) {
            if following == .leftBrace { return .list(try list()) }
            let place = place
            _ = take()
            guard next == .argument else { return try property(quantifier) }
            let number = bytes(take()).argumentNumber
            return .list(ConstantList(constants: [], quantifier: quantifier, argument: number, place: place))
        }
        if next == .subquery { return .subquery(try subquery()) }
        if let constant = try constant() { return .constant(constant) }
        return try property(nil)
    }

    // MARK: Constants

    mutating func list() throws(QueryError) -> ConstantList {
        var list = ConstantList(constants: [], quantifier: Quantifier(next), argument: nil, place: place)
        if list.quantifier != nil { _ = take() }
        try expect(.leftBrace, as: "\"{\"")
        if accept(.rightBrace) { return list }
        repeat {
            guard let constant = try constant() else { throw unexpected("a constant") }
            list.constants.append(constant)
        } while accept(.comma)
        try expect(.rightBrace, as: "\",\" or \"}\"")
        return list
    }

    /// The constant that begins here; nil if something else does.
    private mutating func constant() throws(QueryError) -> Constant? {
        if next == .object { return try link() }
        if next == .binary { return following == .leftParenthesis ? try binary() : nil }
        guard let form = Constant.Form(next) else { return nil }
        let place = place
        return Constant(form: form, text: bytes(take()), place: place)
    }

    private mutating func link() throws(QueryError) -> Constant {
        let place = place
        _ = take()
        try expect(.leftParenthesis, as: "\"(\"")
        let name = bytes(try expect(.string, as: "the name of a class")).dropFirst().dropLast()
        try expect(.comma, as: "\",\"")
        let key = try expect(.natural, .number, .string, .uuid, .objectID, .argument, as: "a primary key")
        try expect(.rightParenthesis, as: "\")\"")
        let prefix = Array("class_".utf8)
        let className = Array(name.starts(with: prefix) ? name.dropFirst(prefix.count) : name)
        let form = Constant.Form.link(className: className, key: Constant.Form(key.kind) ?? .null)
        return Constant(form: form, text: bytes(key), place: place)
    }

    private mutating func binary() throws(QueryError) -> Constant {
        let place = place
        _ = take()
        try expect(.leftParenthesis, as: "\"(\"")
        let token = try expect(.string, .base64, as: "a string")
        try expect(.rightParenthesis, as: "\")\"")
        return Constant(form: token.kind == .string ? .binary : .binaryBase64, text: bytes(token), place: place)
    }

    // MARK: Paths

    mutating func path() throws(QueryError) -> PropertyPath {
        let place = place
        if next == .pathArgument {
            let number = bytes(take()).argumentNumber
            return PropertyPath(steps: [.argument(number)], place: place)
        }
        var steps: [PropertyPath.Step] = [.name(try name())]
        while true {
            if next == .dot, following.isName {
                _ = take()
                steps.append(.name(try name()))
            } else if next == .leftBracket, following != .sizeIndex {
                _ = take()
                steps.append(try index())
                try expect(.rightBracket, as: "\"]\"")
            } else {
                return PropertyPath(steps: steps, place: place)
            }
        }
    }

    private mutating func index() throws(QueryError) -> PropertyPath.Step {
        switch next {
        case .natural: return .index(Int(String(decoding: bytes(take()), as: UTF8.self)) ?? .max)
        case .first:
            _ = take()
            return .index(0)
        case .last:
            _ = take()
            return .index(-1)
        case .times:
            _ = take()
            return .every
        case .string: return .key(Array(bytes(take()).dropFirst().dropLast()))
        default: throw unexpected("an index or a key")
        }
    }

    /// A name with its escapes decoded.
    private mutating func name() throws(QueryError) -> [UInt8] {
        guard next.isName else { throw unexpected("a property or a constant") }
        var name: [UInt8] = []
        var isEscaped = false
        for byte in bytes(take()) {
            if isEscaped {
                let decoded: [UInt8: UInt8] = [
                    UInt8(ascii: "n"): 0x0A, UInt8(ascii: "r"): 0x0D, UInt8(ascii: "t"): 0x09,
                ]
                name.append(decoded[byte] ?? byte)
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else {
                name.append(byte)
            }
        }
        return name
    }

    private mutating func property(_ quantifier: Quantifier?) throws(QueryError) -> Operand {
        let path = try path()
        if quantifier == nil, next == .dot, let function = Aggregate.Function(following) {
            (_, _) = (take(), take())
            let property = accept(.dot) ? try name() : nil
            return .aggregate(Aggregate(path: path, function: function, property: property))
        }
        var part = PropertyOperand.Part.values
        if next == .dot, following == .size || following == .type {
            part = following == .size ? .size : .type
            (_, _) = (take(), take())
        } else if next == .leftBracket, following == .sizeIndex {
            part = .size
            (_, _) = (take(), take())
            try expect(.rightBracket, as: "\"]\"")
        }
        return .property(PropertyOperand(path: path, quantifier: quantifier, part: part))
    }

    private mutating func subquery() throws(QueryError) -> Subquery {
        _ = take()
        try expect(.leftParenthesis, as: "\"(\"")
        let path = try path()
        try expect(.comma, as: "\",\"")
        let variable = bytes(try expect(.identifier, as: "a variable"))
        try expect(.comma, as: "\",\"")
        let condition = try nested { parser throws(QueryError) in try parser.disjunction() }
        recordSubquery(depth: condition.depth + 1)
        try expect(.rightParenthesis, as: "\"and\", \"or\" or \")\"")
        try expect(.dot, as: "\".\"")
        try expect(.size, as: "@size or @count")
        return Subquery(path: path, variable: variable, condition: condition.predicate)
    }

    // MARK: Regions

    mutating func shape() throws(QueryError) -> Shape {
        let kind = try expect(.geoBox, .geoCircle, .geoPolygon, as: "a region").kind
        try expect(.leftParenthesis, as: "\"(\"")
        let shape: Shape
        switch kind {
        case .geoBox:
            let corner = try point()
            try expect(.comma, as: "\",\"")
            shape = .box(corner, try point())
        case .geoCircle:
            let center = try point()
            try expect(.comma, as: "\",\"")
            shape = .circle(center, radius: try number())
        default:
            var rings = [try ring()]
            while accept(.comma) { rings.append(try ring()) }
            shape = .polygon(rings)
        }
        try expect(.rightParenthesis, as: "\")\"")
        return shape
    }

    private mutating func ring() throws(QueryError) -> [Shape.Point] {
        try expect(.leftBrace, as: "\"{\"")
        var points = [try point()]
        while accept(.comma) {
            guard points.count < QueryLimits.cornerCountMax else {
                throw QueryError(.limit, at: place.offset, "more than \(QueryLimits.cornerCountMax) corners in a ring")
            }
            points.append(try point())
        }
        try expect(.rightBrace, as: "\",\" or \"}\"")
        return points
    }

    private mutating func point() throws(QueryError) -> Shape.Point {
        try expect(.leftBracket, as: "\"[\"")
        let longitude = try number()
        try expect(.comma, as: "\",\"")
        var point = Shape.Point(longitude: longitude, latitude: try number(), altitude: nil)
        if accept(.comma) { point.altitude = try number() }
        try expect(.rightBracket, as: "\"]\"")
        return point
    }

    private mutating func number() throws(QueryError) -> Double {
        let token = try expect(.natural, .number, .float, as: "a number")
        guard let number = Double(String(decoding: text[token.range], as: UTF8.self)) else {
            throw QueryError(.syntax, at: token.range.lowerBound, "a decimal number is expected")
        }
        return number
    }
}

extension Quantifier {
    init?(_ token: Token.Kind) {
        switch token {
        case .any: self = .any
        case .all: self = .all
        case .none: self = .none
        default: return nil
        }
    }
}

extension Aggregate.Function {
    init?(_ token: Token.Kind) {
        switch token {
        case .min: self = .min
        case .max: self = .max
        case .sum: self = .sum
        case .average: self = .average
        default: return nil
        }
    }
}

extension Constant.Form {
    /// The form of a token that is a constant by itself.
    init?(_ token: Token.Kind) {
        switch token {
        case .natural, .number: self = .integer
        case .float: self = .float
        case .infinity: self = .infinity
        case .nan: self = .nan
        case .string: self = .string
        case .base64: self = .base64
        case .date: self = .date
        case .uuid: self = .uuid
        case .objectID: self = .objectID
        case .null: self = .null
        case .true: self = .true
        case .false: self = .false
        case .argument: self = .argument
        case .user: self = .user
        case .objectKey: self = .objectKey
        case .typedLink: self = .typedLink
        default: return nil
        }
    }
}
