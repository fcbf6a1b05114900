import AnabranchPropertyList
import Foundation

// The table of section 5 of `Spec/PropertyLists.md`, as far as random documents come across it.

extension Tool {
    /// The document that a tool makes of one.
    func expected(
        _ document: PropertyList, _ form: PropertyList.Form, _ written: PropertyList.Form
    ) -> PropertyList {
        guard written == .xml, self != .plistutil || form != .xml else { return document }
        return document.mapLeaves { leaf in
            switch leaf {
            // CR is written as it is, and so read as LF.
            case .string(let text): .string(text.withLF)
            // plistutil writes no sign of a zero, GNUstep 16 digits.
            case .real(let number) where self == .plistutil && number == 0: .real(0)
            case .real(let number) where self == .gnustep:
                .real(Double(String(format: "%.16g", number)) ?? .nan)
            default: leaf
            }
        }
    }

    /// The document without what the tool makes something else of, which other values cannot be told from.
    func avoiding(_ document: PropertyList) -> PropertyList {
        document.mapLeaves { leaf in
            switch (self, leaf) {
            // All zeros of a file get the sign of the first; with dd-plist some do.
            case (.plistlib, .real(let number)) where number == 0: .real(0)
            case (.ddplist, .real(let number)) where number == 0: .real(0)
            // Of equal numbers, among them false and true, some get the type of the first.
            case (.gnustep, .real(let number)) where number == number.rounded() && number.magnitude < 1e19: .real(0.5)
            case (.gnustep, .integer(0)), (.gnustep, .integer(1)): 2
            // Years of less than four digits.
            case (.plistutil, .date(let date)) where date.seconds < Self.year1000: .date(date.inYear2000)
            // The Julian calendar before it ended.
            case (.ddplist, .date(let date)) where date.seconds < Self.october1582: .date(date.inYear2000)
            // Escapes of its own, in XML too; a BOM in the midst of the document; texts that look alike are one.
            case (.gnustep, .string(let text)):
                .string(
                    text.unicodeScalars.map { scalar in
                        Self.isChangedByGNUstep(scalar) ? "?" : String(scalar)
                    }.joined())
            // Its 16 digits are more than the largest number.
            case (.gnustep, .real(let number)) where number.magnitude > 1.797693134862315e308: .real(0.5)
            default: leaf
            }
        }
    }

    /// The document that came back, without what a tool makes inexact.
    func withoutNoise(_ document: PropertyList) -> PropertyList {
        guard self == .cfpropertylist else { return document }
        return document.mapLeaves { leaf in
            // Seconds are calculated as Floats from 1970.
            guard case .date(let date) = leaf else { return leaf }
            let second = date.seconds + (date.nanoseconds < 500_000_000 ? 0 : 1)
            return PropertyListDate(seconds: second).map { .date($0) } ?? leaf
        }
    }

    private static func isChangedByGNUstep(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value > 0xFFFF || scalar == "\\" || scalar == "\u{FEFF}" || scalar == "\u{301}"
    }

    private static let year1000: Int64 = -30_610_224_000
    private static let october1582: Int64 = -12_219_292_800
}

extension PropertyListDate {
    fileprivate var inYear2000: PropertyListDate {
        PropertyListDate(seconds: 946_684_800 - seconds % 86_400) ?? self
    }
}

extension String {
    /// With CR and CRLF as LF, as XML reads them.
    fileprivate var withLF: String {
        let bytes = Array(utf8)
        let kept = bytes.indices.filter { index in
            bytes[index] != 0x0d || index + 1 == bytes.count || bytes[index + 1] != 0x0a
        }
        return String(decoding: kept.map { bytes[$0] == 0x0d ? 0x0a : bytes[$0] }, as: UTF8.self)
    }

    fileprivate var withoutCR: String {
        String(String.UnicodeScalarView(unicodeScalars.map { $0 == "\r" ? "R" : $0 }))
    }
}

extension PropertyList {
    /// With other leaves, and keys that are changed as texts are, but for CR, which would make two keys one.
    fileprivate func mapLeaves(_ change: (PropertyList) -> PropertyList) -> PropertyList {
        switch self {
        case .array(let values): return .array(values.map { $0.mapLeaves(change) })
        case .dictionary(let values):
            let entries = values.map { key, value in
                (change(.string(key.withoutCR)).string ?? key, value.mapLeaves(change))
            }
            return .dictionary(PropertyListDictionary(entries) { first, _ in first })
        default: return change(self)
        }
    }
}
