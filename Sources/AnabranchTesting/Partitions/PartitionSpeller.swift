package import AnabranchCore
import Foundation

/// Random partition values, and the ways in which SDKs and libraries spell them in extended JSON.
package struct PartitionSpeller {
    private var random: SeededRandom

    package init(seed: UInt64) { random = SeededRandom(scrambling: seed) }

    // MARK: Values

    package mutating func value() -> PartitionValue {
        switch random.below(6) {
        case 0: .null
        case 1: .int64(Int64(random.below(200) - 100))
        case 2: .int64(random.pick([.min, .max, 1 << 53, 1 << 53 + 1, 1 << 31, Int64(bitPattern: random.next())]))
        case 3: ObjectID(bytes(12)).map { .objectID($0) } ?? .null
        case 4: UUIDBytes(bytes(16)).map { .uuid($0) } ?? .null
        default: .string(text())
        }
    }

    private mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(random.below(256)) } }

    /// A random text without `$`, so that a pattern of rules stands for nothing but the text.
    private mutating func text() -> String {
        let characters: [Character] = [
            "a", "Z", "0", " ", "\"", "\\", "/", "\n", "\t", "\u{1}", "\0", "\u{7f}", "é", "e\u{301}", "€", "\u{2028}",
            "😀", "\u{feff}", "{", "*", "%", "漢",
        ]
        return String((0..<random.below(8)).map { _ in random.pick(characters) })
    }

    // MARK: Spellings

    package mutating func spelling(of value: PartitionValue) -> [UInt8] {
        var text = blank()
        switch value {
        case .null: text += "null"
        case .string(let string): text += quoted(string)
        case .int64(let number): text += integer(number)
        case .objectID(let id): text += object([("$oid", digits("\(id)"))])
        case .uuid(let id): text += uuid(id)
        }
        return Array((text + blank()).utf8)
    }

    private mutating func integer(_ number: Int64) -> String {
        let isExact = number.magnitude <= 1 << 53
        switch random.below(isExact ? 6 : 3) {
        case 0 where Int32(exactly: number) != nil: return object([("$numberInt", quoted("\(number)"))])
        case 0, 1: return object([("$numberLong", quoted("\(number)"))])
        case 2: return "\(number)"
        case 3: return "\(number).0"
        case 4: return "\(number)e0"
        default: return object([("$numberDouble", quoted(random.isOne(in: 2) ? "\(number).0" : "\(number)"))])
        }
    }

    private mutating func uuid(_ id: UUIDBytes) -> String {
        let base64 = quoted(Data(id.bytes).base64EncodedString()), subtype = quoted(random.pick(["4", "04"]))
        switch random.below(4) {
        case 0: return object([("$uuid", digits("\(id)"))])
        case 1: return object([("$uuid", digits("\(id)".filter { $0 != "-" }))])
        case 2: return object(shuffled([("$binary", base64), ("$type", subtype)]))
        default: return object([("$binary", object(shuffled([("base64", base64), ("subType", subtype)])))])
        }
    }

    private mutating func shuffled(_ members: [(String, String)]) -> [(String, String)] {
        random.isOne(in: 2) ? members : members.reversed()
    }

    private mutating func digits(_ text: String) -> String {
        quoted(random.isOne(in: 2) ? text : text.uppercased())
    }

    private mutating func object(_ members: [(String, String)]) -> String {
        let texts = members.map { name, value in
            blank() + quoted(name) + blank() + ":" + blank() + value + blank()
        }
        return "{" + texts.joined(separator: ",") + "}"
    }

    private mutating func blank() -> String { random.isOne(in: 2) ? "" : random.pick([" ", "\t", "\n", "\r\n", "  "]) }

    private mutating func quoted(_ text: String) -> String {
        "\"" + text.unicodeScalars.map { escaped($0) }.joined() + "\""
    }

    private mutating func escaped(_ character: Unicode.Scalar) -> String {
        let short: [Unicode.Scalar: String] = [
            "\"": "\\\"", "\\": "\\\\", "/": "\\/", "\u{8}": "\\b", "\u{c}": "\\f", "\n": "\\n", "\r": "\\r",
            "\t": "\\t",
        ]
        let mayBeRaw = character.value >= 0x20 && character != "\"" && character != "\\"
        switch random.below(mayBeRaw ? 8 : 2) {
        case 0:
            return character.utf16.map { unit in
                let digits = String(unit, radix: 16, uppercase: random.isOne(in: 2))
                return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }.joined()
        case 1: return short[character] ?? (mayBeRaw ? String(character) : escaped(character))
        default: return String(character)
        }
    }
}
