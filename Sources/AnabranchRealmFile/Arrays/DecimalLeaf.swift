import AnabranchCore

/// Decimals of 0, 4, 8 or 16 bytes, all in the binary integer form of IEEE 754-2008.
struct DecimalLeaf: ColumnLeaf {
    /// A form that is shorter than 16 bytes.
    private struct ShortForm {
        let bits: UInt64
        let exponentBits: UInt64
        let bias: Int
        let null: UInt64
        /// The upper bound of coefficients: one in the other form that has more digits counts as 0.
        let coefficientEnd: UInt64

        static let four = ShortForm(
            bits: 32, exponentBits: 8, bias: 101, null: 0x7C00_00AA, coefficientEnd: 10_000_000)
        static let eight = ShortForm(
            bits: 64, exponentBits: 10, bias: 398, null: 0x7C00_0000_0000_00AA, coefficientEnd: 10_000_000_000_000_000)

        func decimal(_ word: UInt64) -> Decimal128? {
            guard word != null else { return nil }
            let sign = word >> (bits - 1)
            // Infinities and NaNs, which are recognized by the first bits in each form.
            if word >> (bits - 5) & 0xF == 0xF { return Decimal128(low: 0, high: (word >> (bits - 8)) << 56) }
            let exponentMask: UInt64 = 1 << exponentBits - 1
            if isOther(word) {
                let low = bits - 3 - exponentBits, coefficient = 4 << low | word & (1 << low - 1)
                return Self.decimal(
                    sign, word >> low & exponentMask, coefficient >= coefficientEnd ? 0 : coefficient, bias)
            }
            let low = bits - 1 - exponentBits
            return Self.decimal(sign, word >> low & exponentMask, word & (1 << low - 1), bias)
        }

        /// The coefficient has three more bits in front, 100.
        func isOther(_ word: UInt64) -> Bool { word >> (bits - 3) & 3 == 3 }

        private static func decimal(
            _ sign: UInt64, _ exponent: UInt64, _ coefficient: UInt64, _ bias: Int
        ) -> Decimal128 {
            let exponent = UInt64(Int(exponent) - bias + DecimalLeaf.bias)
            return Decimal128(low: coefficient, high: sign << 63 | exponent << 49)
        }
    }

    private static let bias = 6176
    private static let null = Decimal128(low: 0xAA, high: 0x7C00 << 48)
    private static let zero = Decimal128(low: 0, high: UInt64(bias) << 49)

    private let node: ArrayNode

    init(_ node: ArrayNode, in reading: FileReading) throws(RealmFileError) {
        guard node.kind == .bytes, node.count == 0 || [0, 4, 8, 16].contains(node.width),
            node.width > 0 || node.count <= RealmFileLimits.emptyElementsMax
        else { throw .damaged(at: node.ref, "\(node.count) elements of \(node.width) bytes are not Decimals") }
        self.node = node
        for (form, width) in [(ShortForm.four, 4), (.eight, 8)] where node.width == width {
            for index in 0..<node.count where word(index) != form.null && form.isOther(word(index)) {
                reading.report(notSeen: "a Decimal of \(width) bytes in the other form")
            }
        }
    }

    var count: Int { node.count }

    private func word(_ index: Int) -> UInt64 {
        node.width == 4 ? UInt64(node.load(index, as: UInt32.self)) : node.load(index, as: UInt64.self)
    }

    private func decimal(_ index: Int) -> Decimal128? {
        switch node.width {
        case 0: return node.hasContext ? Self.zero : nil
        case 4: return ShortForm.four.decimal(word(index))
        case 8: return ShortForm.eight.decimal(word(index))
        default:
            let value = Decimal128(low: word(2 * index), high: word(2 * index + 1))
            return value == Self.null ? nil : value
        }
    }

    func element(at index: Int) -> Element { .value(decimal(index).map(Payload.decimal) ?? .null) }
}
