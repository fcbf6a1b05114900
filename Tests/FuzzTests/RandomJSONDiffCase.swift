import AnabranchCore
import AnabranchSimperium
import AnabranchTesting

/// A random object with two diffs of it, and a random text with two deltas: the same ones from the same seed.
struct RandomJSONDiffCase {
    let base: [JSONName: JSONValue]
    let ours: ObjectDiff
    let theirs: ObjectDiff
    let text: String
    let edits: [RandomTextEdit]

    init(seed: UInt64) {
        var random = SeededRandom(scrambling: seed)
        var documents = RandomDocuments(random: random)
        base = documents.members(depth: 3)
        ours = documents.diff(of: base)
        theirs = documents.diff(of: base)
        random = documents.random
        text = RandomDocuments.text(&random)
        edits = [RandomTextEdit(of: text, &random), RandomTextEdit(of: text, &random)]
    }

    /// The promise that does not hold, in words; nil if all do.
    var problem: String? {
        if (try? ours.applied(to: base, bytesMax: 1 << 24)) == nil {
            return "a diff made for the object does not apply"
        }
        return jsonDiffProblem(base, ours: ours, theirs: theirs) ?? mergedTextProblem
    }

    var description: String {
        [JSONValue.object(base), ours.json, theirs.json, .string(text)].map(\.encoded).joined(separator: "\n")
            + edits.map { "\n" + JSONValue.string($0.delta).encoded }.joined()
    }

    /// Compares with a merge that goes from character to character.
    private var mergedTextProblem: String? {
        do {
            let ours = try TextDelta(decoding: edits[0].delta), theirs = try TextDelta(decoding: edits[1].delta)
            if let problem = textDeltaProblem(text, ours: ours, theirs: theirs) { return problem }
            let merged = try ours.rebased(over: theirs).applied(to: theirs.applied(to: text))
            let expected = edits[0].merged(after: edits[1], text)
            guard merged.hasBytes(of: expected) else { return "merged to \(merged), not \(expected)" }
            let other = try theirs.rebased(over: ours).applied(to: ours.applied(to: text))
            let isOrderless = zip(edits[0].insertions, edits[1].insertions).allSatisfy { $0.isEmpty || $1.isEmpty }
            return isOrderless && !merged.hasBytes(of: other) ? "the other order merges to \(other)" : nil
        } catch {
            return "a delta made for the text is refused: \(error)"
        }
    }
}

/// An edit by characters, with the text of its delta.
struct RandomTextEdit {
    /// New text before each character, and at the end.
    private(set) var insertions: [String] = []
    private var isDeleted: [Bool] = []
    private(set) var delta = ""

    init(of text: String, _ random: inout SeededRandom) {
        var tokens: [String] = []
        let activity = 1 + random.below(8)
        for scalar in text.unicodeScalars.map(Optional.some) + [nil] {
            let insertion = random.isOne(in: 2 + activity) ? RandomDocuments.text(&random, upTo: 3) : ""
            insertions.append(insertion)
            if !insertion.isEmpty { tokens.append("+" + Self.encoded(insertion, &random)) }
            guard let scalar else { break }
            isDeleted.append(random.isOne(in: activity))
            tokens.append((isDeleted[isDeleted.count - 1] ? "-" : "=") + String(UTF16.width(scalar)))
        }
        delta = tokens.joined(separator: random.isOne(in: 4) ? "\t\t" : "\t")
    }

    /// In one of the forms that a decoder has to understand.
    private static func encoded(_ text: String, _ random: inout SeededRandom) -> String {
        let isLower = random.isOne(in: 2), inHalves = random.isOne(in: 2)
        var bytes: [UInt8] = []
        for scalar in text.unicodeScalars {
            if inHalves, UTF16.width(scalar) == 2 {
                for half in String(scalar).utf16 {
                    bytes += [0xED, 0x80 | UInt8(half >> 6 & 0x3F), 0x80 | UInt8(half & 0x3F)]
                }
            } else {
                bytes += String(scalar).utf8
            }
        }
        return bytes.map { byte in
            let digits = String(byte, radix: 16, uppercase: !isLower)
            return digits.utf8.count == 1 ? "%0\(digits)" : "%\(digits)"
        }.joined()
    }

    func merged(after other: RandomTextEdit, _ text: String) -> String {
        var result = ""
        for (index, scalar) in text.unicodeScalars.enumerated() {
            result += other.insertions[index] + insertions[index]
            if !isDeleted[index] && !other.isDeleted[index] { result.unicodeScalars.append(scalar) }
        }
        return result + (other.insertions.last ?? "") + (insertions.last ?? "")
    }
}

/// Documents in which two sides often meet, and diffs of every kind that fit them.
private struct RandomDocuments {
    var random: SeededRandom

    /// Characters that share halves of surrogate pairs, look alike, or have a meaning in deltas and JSON.
    private static let characters: [Unicode.Scalar] = [
        "a", "b", "a", " ", "\n", "\t", "%", "+", "#", "\"", "\\", "\u{1}", "é", "\u{301}", "\u{800}", "\u{FFFF}",
        "😀", "😁", "🈴", "😴", "\u{10000}", "\u{10FFFF}",
    ]

    static func text(_ random: inout SeededRandom, upTo count: Int = 12) -> String {
        var text = ""
        for _ in 0..<random.upTo(count) { text.unicodeScalars.append(random.pick(characters)) }
        return text
    }

    private mutating func name() -> JSONName { JSONName(random.pick(["a", "b", "c", "d", "é", "e\u{301}", ""])) }

    mutating func members(depth: Int) -> [JSONName: JSONValue] {
        var members: [JSONName: JSONValue] = [:]
        for _ in 0..<random.upTo(5) { members[name()] = value(depth: depth - 1) }
        return members
    }

    private mutating func value(depth: Int) -> JSONValue {
        switch random.below(depth > 0 ? 12 : 8) {
        case 0: .null
        case 1: .bool(random.isOne(in: 2))
        case 2: .integer(Int64(random.upTo(3)))
        case 3: random.pick([.real(0.5), .real(1e300), .integer(.max), .integer(.min), .integer(0)])
        case 4...7: .string(Self.text(&random))
        case 8, 9: .object(members(depth: depth))
        default: .array((0..<random.upTo(5)).map { _ in value(depth: depth - 1) })
        }
    }

    mutating func diff(of members: [JSONName: JSONValue]) -> ObjectDiff {
        var diff = ObjectDiff()
        for name in members.keys.sorted() where !random.isOne(in: 3) {
            diff.members[name] = operation(on: members[name] ?? .null)
        }
        for _ in 0..<random.upTo(2) { diff.members[name()] = .add(value(depth: 2)) }
        return diff
    }

    private mutating func operation(on value: JSONValue) -> JSONOperation {
        switch random.below(10) {
        case 0: return .remove
        case 1: return .add(self.value(depth: 2))
        case 2: return .replace(random.isOne(in: 4) ? value : self.value(depth: 2))
        default: break
        }
        switch value {
        case .object(let members): return .object(diff(of: members))
        case .string(let text): return .text(delta(of: text))
        case .integer, .real: return .increment(random.pick([1, -2, .real(0.5), .integer(.max)]))
        case .array(let elements) where random.isOne(in: 3): return .listText(lineDelta(of: elements))
        case .array(let elements): return .list(operations(on: elements))
        default: return .replace(self.value(depth: 2))
        }
    }

    /// A delta; one in some splits surrogate pairs and still makes a text.
    private mutating func delta(of text: String) -> TextDelta {
        let edited = RandomTextEdit(of: text, &random)
        let splitting = text.utf16.map { _ in "=1" }.joined(separator: "\t")
        if random.isOne(in: 4), let delta = try? TextDelta(decoding: splitting + "\t+x") { return delta }
        return (try? TextDelta(decoding: edited.delta)) ?? TextDelta(from: text, to: "")
    }

    private mutating func lineDelta(of elements: [JSONValue]) -> TextDelta {
        var changed = elements
        if !changed.isEmpty, random.isOne(in: 2) { changed.remove(at: random.below(changed.count)) }
        for _ in 0..<random.upTo(2) { changed.insert(value(depth: 1), at: random.upTo(changed.count)) }
        let text = { (values: [JSONValue]) in values.map { $0.encoded + "\n" }.joined() }
        return TextDelta(from: text(elements), to: text(changed))
    }

    private mutating func operations(on elements: [JSONValue]) -> [Int: JSONOperation] {
        var operations: [Int: JSONOperation] = [:], index = 0
        for element in elements {
            while random.isOne(in: 4) {
                operations[index] = .add(value(depth: 1))
                index += 1
            }
            if random.isOne(in: 2) {
                // In a list `+` is no change of the element.
                let operation = operation(on: element)
                if case .add(let value) = operation {
                    operations[index] = .replace(value)
                } else {
                    operations[index] = operation
                }
            }
            index += 1
        }
        if random.isOne(in: 3) { operations[index] = .add(value(depth: 1)) }
        return operations
    }
}
