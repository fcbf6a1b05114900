// Texts of constants in MongoDB's extended JSON.

extension Double {
    /// The number of `$numberDouble`; nil for a finite one that is too large, and for other texts that Swift would
    /// accept: hexadecimal digits and other words.
    package init?(extendedJSON text: String) {
        switch text {
        case "Infinity": self = .infinity
        case "-Infinity": self = -.infinity
        case "NaN": self = .nan
        default:
            guard text.utf8.allSatisfy({ 0x30...0x39 ~= $0 || "+-.eE".utf8.contains($0) }),
                let value = Double(text), value.isFinite
            else { return nil }
            self = value
        }
    }
}

extension UUIDBytes {
    /// The UUID of a text with 32 hexadecimal digits, in five groups with hyphens between them or in one.
    package init?(text: String) {
        guard [32, 36].contains(text.utf8.count) else { return nil }
        var digits = Array(text.utf8)
        if digits.count == 36 {
            for hyphen in [23, 18, 13, 8] {
                guard digits.remove(at: hyphen) == UInt8(ascii: "-") else { return nil }
            }
        }
        guard digits.count == 32, let bytes = Hex.decode(digits) else { return nil }
        self.init(bytes)
    }
}
