import AnabranchCore

/// A pattern for partition values: `*` matches any bytes, `${user}` the ident of the user who asks. The value counts:
/// the pattern and the client may spell it in different ways. A star and a dollar sign themselves are `\u002a` and
/// `\u0024`.
struct PathPattern: Equatable, Sendable {
    private enum Piece: Equatable {
        case byte(UInt8)
        case any
        case user
    }

    /// The longest pattern, in bytes. The work of a match grows with the lengths of the pattern and the partition
    /// value.
    static let bytesMax = 256

    private let pieces: [Piece]

    init?(_ text: String) {
        guard text.utf8.count <= Self.bytesMax, let marked = MarkedPattern(text) else { return nil }
        var pieces: [Piece] = [], rest = marked.canonical[...]
        while let byte = rest.first {
            let isAny = rest.starts(with: marked.any), isUser = rest.starts(with: marked.user)
            pieces.append(isAny ? .any : isUser ? .user : .byte(byte))
            rest = rest.dropFirst(isAny ? marked.any.count : isUser ? marked.user.count : 1)
        }
        self.pieces = pieces
    }

    func matches(_ question: PermissionQuestion) -> Bool {
        if question.ident == nil, pieces.contains(.user) { return false }
        // nil stands for any bytes: a `*` in a user's ident is an ordinary character.
        let pattern = pieces.flatMap { piece -> [UInt8?] in
            switch piece {
            case .byte(let byte): [byte]
            case .any: [nil]
            case .user: question.ident ?? []
            }
        }
        return question.spellings.contains { Self.matches($0, pattern) }
    }

    /// Backtracks to the last `*` only, which is enough to find a match. The work is at most the product of both
    /// lengths.
    private static func matches(_ path: [UInt8], _ pattern: [UInt8?]) -> Bool {
        var position = 0, next = 0
        var afterStar: (position: Int, next: Int)?
        while position < path.count {
            if next < pattern.count, let byte = pattern[next] {
                if byte == path[position] {
                    position += 1
                    next += 1
                    continue
                }
            } else if next < pattern.count {
                next += 1
                afterStar = (position, next)
                continue
            }
            guard let last = afterStar else { return false }
            afterStar = (last.position + 1, last.next)
            position = last.position + 1
            next = last.next
        }
        return pattern[next...].allSatisfy { $0 == nil }
    }
}

// MARK: - Values that can match

extension PathPattern {
    /// The form of the idents that the server gives users.
    static let exampleIdent = "5f0c1e2d3b4a59687766aabb"

    /// A form of the texts of values: between its ends it has only these letters, or any if `letters` is nil, and no
    /// more than `countMax`.
    private struct Form {
        let start: String, letters: String?, countMax: Int, end: String

        /// - Parameters:
        ///   - first: the bytes of a pattern before its first star.
        ///   - last: the bytes after its last star.
        ///   - count: the number of its bytes, not counting stars.
        func fits(_ first: [UInt8], _ last: [UInt8], _ count: Int) -> Bool {
            count - start.utf8.count - end.utf8.count <= countMax
                && fits(first, after: Array(start.utf8)) && fits(last.reversed(), after: end.utf8.reversed())
        }

        private func fits(_ found: [UInt8], after edge: [UInt8]) -> Bool {
            guard found.starts(with: edge) else { return edge.starts(with: found) }
            return found.dropFirst(edge.count).allSatisfy { letters?.utf8.contains($0) ?? true }
        }
    }

    private static let forms: [Form] = {
        let digits = "-0123456789", hex = "0123456789abcdef"
        let base64 = "+/=ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
        return [
            Form(start: "\"", letters: nil, countMax: .max, end: "\""),
            Form(start: "null", letters: "", countMax: 0, end: ""),
            Form(start: "", letters: digits, countMax: 20, end: ""),
            Form(start: #"{"$numberLong":""#, letters: digits, countMax: 20, end: #""}"#),
            Form(start: #"{"$numberInt":""#, letters: digits, countMax: 20, end: #""}"#),
            Form(start: #"{"$oid":""#, letters: hex, countMax: 24, end: #""}"#),
            Form(start: #"{"$uuid":""#, letters: "-" + hex, countMax: 36, end: #""}"#),
            Form(start: #"{"$binary":{"base64":""#, letters: base64, countMax: 24, end: #"","subType":"04"}}"#),
        ]
    }()

    /// True if there can be a value that matches: SDKs ask for nothing else.
    var canMatchValues: Bool {
        let bytes = pieces.flatMap { piece -> [UInt8?] in
            switch piece {
            case .byte(let byte): [byte]
            case .any: [nil]
            case .user: Array(Self.exampleIdent.utf8)
            }
        }
        let fixed = bytes.compactMap(\.self)
        guard let first = bytes.firstIndex(of: nil), let last = bytes.lastIndex(of: nil) else {
            return PartitionValue(extendedJSON: fixed) != nil
        }
        let (start, end) = (bytes[..<first].compactMap(\.self), bytes[last...].compactMap(\.self))
        return Self.forms.contains { $0.fits(start, end, fixed.count) }
    }
}

/// The question for a user's permission, in the forms in which rules compare it: they are the same for all rules.
struct PermissionQuestion {
    let principal: Principal
    let customData: JSONValue
    /// The texts of the partition's value that a pattern can be meant for.
    let spellings: [[UInt8]]
    /// The user's ident as it stands in these texts; nil if the server does not know the user.
    let ident: [UInt8]?

    /// - Parameter partition: the partition, in its canonical text if it is a value.
    init(_ principal: Principal, _ partition: [UInt8]) {
        self.principal = principal
        customData = (try? JSONValue(parsing: principal.customData.utf8)) ?? [:]
        spellings =
            switch PartitionValue(extendedJSON: partition) {
            case .int64(let number): [partition, Array(#"{"$numberInt":"\#(number)"}"#.utf8), Array("\(number)".utf8)]
            case .uuid(let id): [partition, Array(#"{"$uuid":"\#(id)"}"#.utf8)]
            default: [partition]
            }
        // In the text of a string the ident has escapes, like everything else.
        let isText = partition.first == UInt8(ascii: "\"")
        ident = principal.user.map { user in
            isText ? Array(PartitionValue.string(user).bytes.dropFirst().dropLast()) : Array(user.utf8)
        }
    }
}

// MARK: - Spellings

/// A pattern in the canonical text of its value, with marks in place of `*` and `${user}`: letters that it does not
/// have.
private struct MarkedPattern {
    let any, user: [UInt8]
    private(set) var canonical: [UInt8] = []

    private static let userWord = Array("${user}".utf8)

    /// Nil if a star or a dollar sign has an escape that JSON does not know.
    init?(_ text: String) {
        let bytes = Array(text.utf8), digits = bytes.map { $0 | 0x20 }
        // The noncharacters of Unicode: it has 32 for such uses. An escape may mean one, too.
        var marks = (UInt16(0xFDD0)...0xFDEF).lazy.compactMap(Unicode.Scalar.init).filter { mark in
            !bytes.contains(Array(String(mark).utf8)) && !digits.contains(Array(String(mark.value, radix: 16).utf8))
        }.map { Array(String($0).utf8) }.makeIterator()
        guard let any = marks.next(), let user = marks.next() else { return nil }
        (self.any, self.user) = (any, user)
        // The pattern as JSON reads it, and as it is if it is not JSON.
        var json: [UInt8] = [], plain: [UInt8] = [], rest = bytes[...]
        while let byte = rest.first {
            var length = 1, meaning = [byte]
            if byte == UInt8(ascii: "*") {
                meaning = any
            } else if rest.starts(with: Self.userWord) {
                (length, meaning) = (Self.userWord.count, user)
            } else if byte == UInt8(ascii: "\\") {
                guard let escape = Self.escape(rest) else { return nil }
                (length, meaning) = escape
                json += rest.prefix(length)
            }
            if byte != UInt8(ascii: "\\") { json += meaning }
            plain += meaning
            rest = rest.dropFirst(length)
        }
        canonical = Self.canonical(json) ?? plain
    }

    /// The length of an escape; and the character that it stands for in every pattern, or the escape itself.
    private static func escape(_ rest: ArraySlice<UInt8>) -> (length: Int, meaning: [UInt8])? {
        let next = rest.dropFirst().first
        if next == UInt8(ascii: "*") || next == UInt8(ascii: "$") { return nil }
        let number = UInt8(String(decoding: rest.dropFirst(2).prefix(4), as: UTF8.self), radix: 16)
        if next == UInt8(ascii: "u"), let number, [0x2A, 0x24].contains(number) { return (6, [number]) }
        return (min(2, rest.count), Array(rest.prefix(2)))
    }

    /// The pattern without the peculiarities of its spelling: blanks, needless escapes, the order of keys, capital
    /// digits. Nil if it is not JSON like that of values.
    private static func canonical(_ text: [UInt8]) -> [UInt8]? {
        if let value = PartitionValue(extendedJSON: text) { return value.bytes }
        guard let members = try? JSONValue(parsing: text).members else { return nil }
        if members.count == 2, let base64 = members["$binary"]?.string, let type = members["$type"] {
            return binary(base64, type)
        }
        guard let (key, value) = members.first, members.count == 1 else { return nil }
        switch (key.text, value) {
        case ("$oid", .string(let digits)), ("$uuid", .string(let digits)):
            return Array(#"{"\#(key)":\#(JSONText.quoted(digits.lowercased()))}"#.utf8)
        case ("$numberLong", .string(let digits)), ("$numberInt", .string(let digits)):
            return Array(#"{"\#(key)":\#(JSONText.quoted(digits))}"#.utf8)
        case ("$binary", .object(let parts)):
            return parts["base64"]?.string.flatMap { binary($0, parts["subType"]) }
        default: return nil
        }
    }

    private static func binary(_ base64: String, _ subtype: JSONValue?) -> [UInt8]? {
        guard subtype == "4" || subtype == "04" else { return nil }
        return Array(#"{"$binary":{"base64":\#(JSONText.quoted(base64)),"subType":"04"}}"#.utf8)
    }
}
