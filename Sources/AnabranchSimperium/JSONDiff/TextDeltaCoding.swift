import AnabranchCore

// The text of a delta: tokens with tabs between them, inserted text percent-encoded (`Spec/Simperium.md`, section 2).

extension TextDelta {
    /// Reads a delta liberally: empty tokens count for nothing, any character may be percent-encoded, with digits of
    /// either case, and a half of a surrogate pair may be encoded as if it were a character.
    /// - Throws: An error with the code 400.
    package init(decoding text: String) throws(JSONDiffError) {
        self.init()
        for token in Array(text.utf8).split(separator: 0x09) {
            let rest = token.dropFirst()
            let isRead =
                switch token.first {
                case UInt8(ascii: "="): append(count: rest, .keep)
                case UInt8(ascii: "-"): append(count: rest, .delete)
                case UInt8(ascii: "+"): append(encoded: rest)
                default: false
                }
            guard isRead else {
                throw JSONDiffError(.malformed, "no token of a delta: \(String(excerptOf: token))")
            }
        }
    }

    private mutating func append(count digits: ArraySlice<UInt8>, _ kind: Kind) -> Bool {
        guard digits.allSatisfy({ 0x30...0x39 ~= $0 }), let count = Int(String(decoding: digits, as: UTF8.self)) else {
            return false
        }
        return append(kind, count)
    }

    private mutating func append(encoded text: ArraySlice<UInt8>) -> Bool {
        guard let bytes = Hex.percentDecoded(text), let units = GeneralizedUTF8.decode(bytes) else { return false }
        append(units[...])
        return true
    }

    /// The delta as text. Exactly the characters that the clients' decoders want encoded are encoded, in upper case.
    package var encoded: String {
        var text: [UInt8] = [], insertion = 0
        for step in steps {
            if !text.isEmpty { text.append(0x09) }
            switch step.kind {
            case .keep: text += "=\(step.count)".utf8
            case .delete: text += "-\(step.count)".utf8
            case .insert:
                text.append(UInt8(ascii: "+"))
                for byte in GeneralizedUTF8.encode(inserted[insertion..<insertion + step.count]) {
                    if Self.stays[Int(byte)] {
                        text.append(byte)
                    } else {
                        text += [UInt8(ascii: "%"), Self.digits[Int(byte >> 4)], Self.digits[Int(byte & 0xF)]]
                    }
                }
                insertion += step.count
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static let digits = Array("0123456789ABCDEF".utf8)

    /// True for each byte that is not encoded.
    private static let stays = (UInt8.min ... .max).map { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: " -_.!~*'();/?:@&=+$,#".utf8.contains(byte)
        }
    }
}

/// UTF-8 in which a half of a surrogate pair may stand alone, as three bytes. (WTF-8, and a pair may be two halves.)
enum GeneralizedUTF8 {
    /// The UTF-16 code units; nil for other bytes.
    static func decode(_ bytes: [UInt8]) -> [UInt16]? {
        var units: [UInt16] = [], place = 0
        units.reserveCapacity(bytes.count)
        while place < bytes.count {
            let byte = bytes[place], (count, least): (Int, UInt32)
            place += 1
            switch byte {
            case 0..<0x80:
                units.append(UInt16(byte))
                continue
            case 0xC0..<0xE0: (count, least) = (1, 0x80)
            case 0xE0..<0xF0: (count, least) = (2, 0x800)
            case 0xF0..<0xF8: (count, least) = (3, 0x10000)
            default: return nil
            }
            guard bytes.count - place >= count else { return nil }
            var scalar = UInt32(byte & (0x3F >> UInt8(count)))
            for next in bytes[place..<place + count] {
                guard UTF8.isContinuation(next) else { return nil }
                scalar = scalar << 6 | UInt32(next & 0x3F)
            }
            guard scalar >= least, scalar <= 0x10FFFF else { return nil }
            place += count
            UTF16.append(scalar, to: &units)
        }
        return units
    }

    static func encode(_ units: ArraySlice<UInt16>) -> [UInt8] {
        var bytes: [UInt8] = [], place = units.startIndex
        bytes.reserveCapacity(units.count)
        while place < units.endIndex {
            let unit = units[place]
            var scalar = UInt32(unit)
            place += 1
            if UTF16.isLeadSurrogate(unit), place < units.endIndex, UTF16.isTrailSurrogate(units[place]) {
                scalar = 0x10000 + (scalar & 0x3FF) << 10 + UInt32(units[place]) & 0x3FF
                place += 1
            }
            let last = 0x80 | UInt8(truncatingIfNeeded: scalar & 0x3F)
            let third = UInt8(truncatingIfNeeded: scalar >> 6), second = UInt8(truncatingIfNeeded: scalar >> 12)
            switch scalar {
            case 0..<0x80: bytes.append(UInt8(truncatingIfNeeded: scalar))
            case 0x80..<0x800: bytes += [0xC0 | third, last]
            case 0x800..<0x10000: bytes += [0xE0 | second, 0x80 | third & 0x3F, last]
            default:
                let first = UInt8(truncatingIfNeeded: scalar >> 18)
                bytes += [0xF0 | first, 0x80 | second & 0x3F, 0x80 | third & 0x3F, last]
            }
        }
        return bytes
    }
}
