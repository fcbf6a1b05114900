package import AnabranchCore

extension JSONValue {
    /// True if both are the same JSON: numbers by their value, however they are written, and the members of objects in
    /// any order. 1 is 1.0, and 0 is -0; `true` is not a number (`Spec/Simperium.md`, section 1).
    package func isSameJSON(as other: JSONValue) -> Bool {
        switch (self, other) {
        case (.integer(let number), .real(let real)), (.real(let real), .integer(let number)):
            Int64(exactly: real) == number
        case (.largeInteger(let digits), .real(let real)), (.real(let real), .largeInteger(let digits)):
            // The shortest way to almost always know that they differ, and a bound for the number of digits.
            Double(digits) == real && real.isFinite && real.integerDigits == digits
        case (.array(let values), .array(let others)):
            values.count == others.count && zip(values, others).allSatisfy { $0.isSameJSON(as: $1) }
        case (.object(let members), .object(let others)):
            members.count == others.count
                && members.allSatisfy { name, value in others[name].map(value.isSameJSON) ?? false }
        default: self == other
        }
    }

    /// The value with each number in one form: a whole number of 64 bits is an integer, however it was written (`1.0`,
    /// `1e3`, `-0`), any other number a Double.
    /// - Throws: An error with the code 400 for an integer that is larger than any Double.
    package func normalized() throws(JSONDiffError) -> JSONValue {
        switch self {
        case .real(let number): return Int64(exactly: number).map { .integer($0) } ?? self
        case .largeInteger(let digits):
            guard let number = Double(digits), number.isFinite else {
                throw JSONDiffError(.malformed, "a number out of range")
            }
            return .real(number)
        case .array(var values):
            for (index, value) in values.enumerated() {
                do { values[index] = try value.normalized() } catch { throw error.within(String(index)) }
            }
            return .array(values)
        case .object(var members):
            for (name, value) in members {
                do { members[name] = try value.normalized() } catch { throw error.within(name.text) }
            }
            return .object(members)
        case .null, .bool, .integer, .string: return self
        }
    }

    /// The number of bytes of the compact text, and how many arrays and objects stand within each other.
    var size: (bytes: Int, depth: Int) {
        switch self {
        case .null: (4, 0)
        case .bool(let flag): (flag ? 4 : 5, 0)
        case .string(let text): (Self.quotedBytes(of: text), 0)
        case .integer, .largeInteger, .real: (encoded.utf8.count, 0)
        case .array(let values): Self.size(of: values.map(\.size))
        case .object(let members):
            Self.size(
                of: members.map { name, value in
                    let size = value.size
                    return (Self.quotedBytes(of: name.text) + 1 + size.bytes, size.depth)
                })
        }
    }

    private static func size(of parts: [(bytes: Int, depth: Int)]) -> (bytes: Int, depth: Int) {
        let bytes = parts.reduce(2 + max(0, parts.count - 1)) { $0 + $1.bytes }
        return (bytes, 1 + parts.reduce(0) { max($0, $1.depth) })
    }

    /// The number of bytes of a text in JSON, at most.
    package static func quotedBytes(of text: String) -> Int {
        text.utf8.reduce(2) { count, byte in
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): count + 2
            case 0..<0x20: count + 6
            default: count + 1
            }
        }
    }

    /// The sum of two numbers in its one form; nil if one is not a number, or the sum is larger than any Double.
    func adding(_ other: JSONValue) -> JSONValue? {
        if case .integer(let number) = self, case .integer(let summand) = other {
            let (sum, isTooLarge) = number.addingReportingOverflow(summand)
            if !isTooLarge { return .integer(sum) }
        }
        guard let number = double, let summand = other.double, (number + summand).isFinite else { return nil }
        return try? JSONValue.real(number + summand).normalized()
    }

    private var double: Double? {
        switch self {
        case .integer(let number): Double(number)
        case .largeInteger(let digits): Double(digits)
        case .real(let number): number
        default: nil
        }
    }
}

extension Double {
    /// The exact decimal digits of a finite number of at least 2^53, or at most -2^53.
    fileprivate var integerDigits: String {
        let base: UInt64 = 1_000_000_000_000_000_000
        // The digits in groups of 18, the lowest first: the significand, doubled so often as the exponent says.
        var groups = [UInt64(significandBitPattern) | 1 << 52]
        for _ in 0..<max(0, Int(exponent) - 52) {
            var carry: UInt64 = 0
            for index in groups.indices {
                let doubled = 2 * groups[index] + carry
                carry = doubled / base
                groups[index] = doubled % base
            }
            if carry > 0 { groups.append(carry) }
        }
        var text = self < 0 ? "-" : ""
        for (index, group) in groups.reversed().enumerated() {
            let digits = String(group)
            text += (index == 0 ? "" : String(repeating: "0", count: 18 - digits.count)) + digits
        }
        return text
    }
}
