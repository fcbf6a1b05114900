// Identifiers and decimals as texts, in which JSON and other formats have them.

extension ObjectID: LosslessStringConvertible, Codable {
    /// 24 hexadecimal digits; nil for another text.
    public init?(_ text: String) {
        guard text.utf8.count == 24, let bytes = Hex.decode(text) else { return nil }
        self.init(bytes)
    }

    /// - Parameters:
    ///   - secondsSince1970: when it was made; later ones are greater.
    ///   - rest: 8 bytes that tell those of one second apart, the highest first.
    public init(secondsSince1970: UInt32, rest: UInt64) {
        self.init(low: UInt64(secondsSince1970.byteSwapped) | rest.byteSwapped << 32, high: rest.byteSwapped >> 32)
    }

    /// Reads 24 hexadecimal digits.
    public init(from decoder: any Decoder) throws { self = try Self.read(from: decoder) }

    /// Writes 24 hexadecimal digits.
    public func encode(to encoder: any Encoder) throws { try write(to: encoder) }
}

extension Decimal128: LosslessStringConvertible, Codable, ExpressibleByIntegerLiteral {
    /// The number with the digits and the exponent of the text, as `12.50` or `1E-3`; nil for another text, and for a
    /// number that has no such form.
    public init?(_ text: String) { self.init(exactly: text) }

    /// A whole number.
    public init(integerLiteral value: Int64) { self.init(value) }

    /// A whole number.
    public init(_ value: Int64) {
        self.init(low: value.magnitude, high: UInt64(Self.exponentBias) << 49 | (value < 0 ? 1 << 63 : 0))
    }

    /// Reads the digits from a text.
    public init(from decoder: any Decoder) throws { self = try Self.read(from: decoder) }

    /// Writes the digits as a text.
    public func encode(to encoder: any Encoder) throws { try write(to: encoder) }
}

extension LosslessStringConvertible {
    fileprivate static func read(from decoder: any Decoder) throws -> Self {
        let container = try decoder.singleValueContainer(), text = try container.decode(String.self)
        guard let value = Self(text) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "'\(text)' is not of type \(Self.self)")
        }
        return value
    }

    fileprivate func write(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
