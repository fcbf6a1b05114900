import AnabranchCore

/// Values as the function `quote` of SQLite spells them, separated by commas.
enum QuotedValues {
    static func text(_ value: SQLValue) -> [UInt8] {
        switch value {
        case .null: Array("NULL".utf8)
        case .int(let value): Array("\(value)".utf8)
        case .real(let value): Array("\(value)".utf8)
        case .text(let bytes):
            [quote] + bytes.flatMap { $0 == quote ? [quote, quote] : [$0] } + [quote]
        case .blob(let bytes): Array("X'\(Hex.encode(bytes).uppercased())'".utf8)
        }
    }

    private static let quote = UInt8(ascii: "'")

    static func read(_ text: [UInt8]) -> [SQLValue]? {
        var rest = text[...], values: [SQLValue] = []
        while true {
            guard let value = value(&rest) else { return nil }
            values.append(value)
            if rest.isEmpty { return values }
            guard rest.removeFirst() == UInt8(ascii: ",") else { return nil }
        }
    }

    private static func value(_ rest: inout ArraySlice<UInt8>) -> SQLValue? {
        if rest.first == quote { return quoted(&rest).map { .text($0) } }
        if rest.first == UInt8(ascii: "X"), rest.dropFirst().first == quote {
            rest.removeFirst()
            return quoted(&rest).flatMap { Hex.decode(String(decoding: $0, as: UTF8.self)) }.map { .blob($0) }
        }
        let word = String(decoding: rest.prefix { $0 != UInt8(ascii: ",") }, as: UTF8.self)
        rest.removeFirst(word.utf8.count)
        if word == "NULL" { return .null }
        return Int64(word).map { .int($0) } ?? Double(word).map { .real($0) }
    }

    private static func quoted(_ rest: inout ArraySlice<UInt8>) -> [UInt8]? {
        rest.removeFirst()
        var bytes: [UInt8] = []
        while let byte = rest.popFirst() {
            guard byte == quote else {
                bytes.append(byte)
                continue
            }
            guard rest.first == quote else { return bytes }
            rest.removeFirst()
            bytes.append(quote)
        }
        return nil
    }
}
