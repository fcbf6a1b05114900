public import AnabranchCore

/// An argument of a query, for which `$0`, `ANY $0` or `$K0` stands.
public enum QueryArgument: Sendable {
    /// A constant, which is taken as it is.
    case value(StateValue)
    /// A list of constants.
    case list([StateValue])
    /// A path, as it would be written in the query.
    case path(String)
}

// Constants: their meaning depends on the static type of the other side of the comparison (`Spec/Query.md`, section 4).

extension Binder {
    /// - Parameter type: of the other side; nil if there is none.
    func value(_ constant: Constant, towards type: StaticType?) throws(QueryError) -> StateValue {
        let value = try plainValue(constant, towards: type)
        if constant.form == .user {
            guard type != .typeOf else { throw error(constant, "$user.id is not a name of a type") }
            // It stays a text even next to numbers, with which it cannot be compared: "7" and "7a" are two users.
            return value
        }
        return type == .typeOf ? try types(named: value, constant.place) : converted(value, constant, towards: type)
    }

    /// The kinds of values that a string names.
    func types(named value: StateValue, _ place: Place) throws(QueryError) -> StateValue {
        guard case .string(let name) = value else {
            throw QueryError(.query, at: place.offset, "@type can be compared with names of types only")
        }
        guard let types = TypeSet(named: name) else {
            throw QueryError(.query, at: place.offset, "\"\(String(excerptOf: name))\" is not a name of a type")
        }
        return types.value
    }

    private func error(
        _ constant: Constant, _ reason: String, _ kind: QueryError.Kind = .query
    ) -> QueryError {
        QueryError(kind, at: constant.place.offset, reason)
    }

    private func plainValue(_ constant: Constant, towards type: StaticType?) throws(QueryError) -> StateValue {
        let text = constant.text
        switch constant.form {
        case .integer: return .int(Self.integer(text))
        case .float: return try real(constant)
        case .infinity: return .double(text.first == UInt8(ascii: "-") ? -.infinity : .infinity)
        case .nan: return .double(text.first == UInt8(ascii: "-") ? -.nan : .nan)
        case .string: return .string(Array(text.dropFirst().dropLast()))
        case .base64: return .string(try base64(constant))
        case .binary: return .binary(Array(text.dropFirst().dropLast()))
        case .binaryBase64: return .binary(try base64(constant))
        case .date: return .timestamp(try timestamp(constant))
        case .uuid: return UUIDBytes(Self.hexadecimal(text.dropFirst(5))).map(StateValue.uuid) ?? .null
        case .objectID: return ObjectID(Self.hexadecimal(text.dropFirst(4))).map(StateValue.objectID) ?? .null
        case .true: return .bool(true)
        case .false: return .bool(false)
        case .null: return .null
        case .link(let className, let key): return try link(constant, to: className, key)
        case .argument:
            guard case .value(let value) = try argument(constant.text, constant.place) else {
                throw error(constant, "the argument is a list or a path where a constant is expected")
            }
            return value
        case .user:
            guard let user else { throw error(constant, "there is no user") }
            return .string(Array(user.utf8))
        case .objectKey, .typedLink:
            throw error(constant, "numbers of objects mean nothing outside the file of a client")
        }
    }

    // MARK: Arguments

    func argument(_ token: [UInt8], _ place: Place) throws(QueryError) -> QueryArgument {
        try argument(token.argumentNumber, place)
    }

    func argument(_ number: Int, _ place: Place) throws(QueryError) -> QueryArgument {
        guard number < arguments.count else {
            throw QueryError(.query, at: place.offset, "there is no argument \(number): \(arguments.count) were given")
        }
        return arguments[number]
    }

    // MARK: Numbers

    /// Decimal, hexadecimal after `0x` or octal after `0`; a number out of range is clamped.
    private static func integer(_ text: [UInt8]) -> Int64 {
        let isNegative = text.first == UInt8(ascii: "-")
        let signed = isNegative || text.first == UInt8(ascii: "+")
        var digits = text.dropFirst(signed ? 1 : 0)
        var radix: UInt64 = 10
        if digits.count > 1, digits.first == UInt8(ascii: "0") {
            let isHexadecimal = digits.dropFirst().first?.lowercased == UInt8(ascii: "x")
            radix = isHexadecimal ? 16 : 8
            digits = digits.dropFirst(isHexadecimal ? 2 : 1)
        }
        return clamped(digits, radix: radix, isNegative: isNegative)
    }

    private static func clamped(_ digits: some Sequence<UInt8>, radix: UInt64, isNegative: Bool) -> Int64 {
        var magnitude: UInt64 = 0
        for character in digits {
            guard let digit = Hex.value(of: character).map(UInt64.init), digit < radix else { break }
            let (product, overflows) = magnitude.multipliedReportingOverflow(by: radix)
            magnitude = overflows || product > UInt64.max - digit ? .max : product + digit
        }
        if isNegative { return magnitude >= 1 << 63 ? .min : -Int64(magnitude) }
        return Int64(clamping: magnitude)
    }

    private func real(_ constant: Constant) throws(QueryError) -> StateValue {
        let isFloat = constant.text.last == UInt8(ascii: "f")
        let text = String(decoding: isFloat ? constant.text.dropLast() : constant.text[...], as: UTF8.self)
        if isFloat, let value = Float(text) { return .float(value) }
        guard let value = Double(text) else { throw error(constant, "not a number") }
        return .double(value)
    }

    private func converted(
        _ value: StateValue, _ constant: Constant, towards type: StaticType?
    ) -> StateValue {
        switch (value, type) {
        case (.int(let value), .decimal): return .decimal(Decimal128(value))
        case (.double(let value), _) where constant.form != .argument:
            return converted(value, constant, towards: type)
        case (.float(let number), .int): return Int64(exactly: number).map(StateValue.int) ?? value
        case (.string(let text), .int): return Self.integerPrefix(text).map(StateValue.int) ?? value
        case (.string(let text), .double): return Self.realPrefix(text, Double.init).map(StateValue.double) ?? value
        case (.string(let text), .float): return Self.realPrefix(text, Float.init).map(StateValue.float) ?? value
        case (.string(let text), .decimal):
            guard let number = Decimal128(text: text), !number.isNaN else { return value }
            return .decimal(number)
        default: return value
        }
    }

    private func converted(
        _ value: Double, _ constant: Constant, towards type: StaticType?
    ) -> StateValue {
        switch type {
        case .float: return .float(Float(value))
        case .decimal: return Decimal128(text: constant.text).map(StateValue.decimal) ?? .double(value)
        case .int: return Int64(exactly: value).map(StateValue.int) ?? .double(value)
        default: return .double(value)
        }
    }

    private static func integerPrefix(_ text: [UInt8]) -> Int64? {
        let text = text.drop { $0 == 0x20 || 0x09...0x0D ~= $0 }
        let isNegative = text.first == UInt8(ascii: "-")
        let digits = text.dropFirst(isNegative || text.first == UInt8(ascii: "+") ? 1 : 0).prefix(while: \.isDigit)
        return digits.isEmpty ? nil : clamped(digits, radix: 10, isNegative: isNegative)
    }

    private static func realPrefix<Real>(_ text: [UInt8], _ number: (String) -> Real?) -> Real? {
        let rest = text.drop { $0 == 0x20 || 0x09...0x0D ~= $0 }
        var end = rest.startIndex
        func skip(_ isPart: (UInt8) -> Bool) -> Int {
            let start = end
            while end < rest.endIndex, isPart(rest[end]) { end += 1 }
            return end - start
        }
        func accept(_ characters: String) {
            if end < rest.endIndex, characters.utf8.contains(rest[end]) { end += 1 }
        }
        accept("+-")
        var digits = skip(\.isDigit)
        accept(".")
        digits += skip(\.isDigit)
        guard digits > 0 else {
            let words = ["nan", "inf", "infinity"]
            let word = String(decoding: text.map(\.lowercased), as: UTF8.self)
            return words.contains(word.trimmingSign) ? number(word) : nil
        }
        let mantissa = end
        accept("eE")
        accept("+-")
        if end == mantissa || skip(\.isDigit) == 0 { end = mantissa }
        return number(String(decoding: rest[..<end], as: UTF8.self))
    }

    // MARK: Bytes

    /// The digits among some characters.
    private static func hexadecimal(_ text: ArraySlice<UInt8>) -> [UInt8] {
        Hex.decode(String(decoding: text.filter(\.isHexadecimal), as: UTF8.self)) ?? []
    }

    /// The bytes between `B64"` and `"`.
    private func base64(_ constant: Constant) throws(QueryError) -> [UInt8] {
        guard let bytes = Base64.decode(constant.text.dropFirst(4).dropLast()) else {
            throw error(constant, "not base64", .syntax)
        }
        return bytes
    }

    // MARK: Times

    private func timestamp(_ constant: Constant) throws(QueryError) -> Timestamp {
        let isNumber = constant.text.first == UInt8(ascii: "T")
        let separators = Array((isNumber ? "T:" : "-@T:").utf8)
        var parts: [Int64] = []
        for part in constant.text.split(whereSeparator: separators.contains) {
            guard let number = Int64(String(decoding: part, as: UTF8.self)), isNumber || number <= 1 << 32 else {
                throw error(constant, "the time is out of range")
            }
            parts.append(number)
        }
        let (seconds, nanoseconds) = isNumber ? (parts[0], parts[1]) : try moment(parts, constant)
        guard nanoseconds.magnitude < 1_000_000_000 else { throw error(constant, "a second has 10^9 nanoseconds") }
        if seconds > 0 && nanoseconds < 0 || seconds < 0 && nanoseconds > 0 {
            throw error(constant, "seconds and nanoseconds have different signs", .syntax)
        }
        return Timestamp(seconds: seconds, nanoseconds: Int32(nanoseconds))
    }

    /// The seconds and nanoseconds of year, month, day, hour, minute, second and nanoseconds in UTC.
    private func moment(_ parts: [Int64], _ constant: Constant) throws(QueryError) -> (Int64, Int64) {
        guard parts[0] >= 1900 else { throw error(constant, "years before 1900 cannot be written as dates") }
        guard 1...12 ~= parts[1], 1...31 ~= parts[2] else { throw error(constant, "there is no such day") }
        // Counted from 1 March, so that the leap day is the last of its year.
        let year = parts[1] > 2 ? parts[0] : parts[0] - 1
        let month = (parts[1] + 9) % 12
        let dayOfYear = (153 * month + 2) / 5 + parts[2] - 1
        let days = year * 365 + year / 4 - year / 100 + year / 400 + dayOfYear - 719_468
        let seconds = days * 86_400 + parts[3] * 3_600 + parts[4] * 60 + parts[5]
        let nanoseconds = parts.count > 6 ? parts[6] : 0
        return (seconds, seconds < 0 ? -nanoseconds : nanoseconds)
    }

    // MARK: Links

    private func link(
        _ constant: Constant, to className: [UInt8], _ key: Constant.Form
    ) throws(QueryError) -> StateValue {
        guard let target = classes.schema(ofClass: className) else {
            throw error(constant, "there is no class \"\(String(excerptOf: className))\"")
        }
        let keyConstant = Constant(form: key, text: constant.text, place: constant.place)
        let primaryKey: PrimaryKey
        switch try plainValue(keyConstant, towards: nil) {
        case .int(let value): primaryKey = .int(value)
        case .string(let value): primaryKey = .string(value)
        case .objectID(let value): primaryKey = .objectID(value)
        case .uuid(let value): primaryKey = .uuid(value)
        default: throw error(constant, "a primary key is an integer, a string, an ObjectId or a UUID")
        }
        let object = ObjectReference(classID: target.number, key: primaryKey)
        guard options.links == .followed else { return .link(object) }
        do throws(ApplyError) {
            return try source.contains(object) ? .link(object) : .null
        } catch {
            throw QueryError(error, at: constant.place.offset)
        }
    }
}

extension String {
    fileprivate var trimmingSign: String { hasPrefix("-") || hasPrefix("+") ? String(dropFirst()) : self }
}
