import AnabranchCore

/// A pattern for partition values: `*` matches any bytes, `${user}` the ident of the user who asks. What counts is the
/// value: the pattern and the client may spell it in different ways.
struct PathPattern: Equatable, Sendable {
    private enum Piece: Equatable {
        case byte(UInt8)
        case any
        case user
    }

    /// Longest pattern, in bytes. The work of a match grows with the lengths of the pattern and the partition value.
    static let bytesMax = 256

    private let pieces: [Piece]

    init?(_ text: String) {
        guard text.utf8.count <= Self.bytesMax else { return nil }
        let user = Array("${user}".utf8)
        var pieces: [Piece] = []
        var rest = Self.canonical(text)[...]
        while let byte = rest.first {
            if rest.starts(with: user) {
                pieces.append(.user)
                rest = rest.dropFirst(user.count)
            } else {
                pieces.append(byte == UInt8(ascii: "*") ? .any : .byte(byte))
                rest = rest.dropFirst()
            }
        }
        self.pieces = pieces
    }

    /// - Parameter partition: in its one text if it is a value.
    func matches(_ partition: [UInt8], user: String?) -> Bool {
        if user == nil, pieces.contains(.user) { return false }
        // In the text of a string the ident has escapes as everything else.
        let isText = partition.first == UInt8(ascii: "\"")
        let ident =
            isText ? PartitionValue.string(user ?? "").bytes.dropFirst().dropLast() : Array((user ?? "").utf8)[...]
        // nil stands for any bytes: a `*` in a user's ident is an ordinary character.
        let pattern = pieces.flatMap { piece -> [UInt8?] in
            switch piece {
            case .byte(let byte): [byte]
            case .any: [nil]
            case .user: Array(ident)
            }
        }
        return Self.spellings(of: partition).contains { Self.matches($0, pattern) }
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

// MARK: - Spellings

extension PathPattern {
    /// The texts of a value that a pattern can be meant for.
    private static func spellings(of partition: [UInt8]) -> [[UInt8]] {
        switch PartitionValue(extendedJSON: partition) {
        case .int64(let number): [partition, Array(#"{"$numberInt":"\#(number)"}"#.utf8), Array("\(number)".utf8)]
        case .uuid(let id): [partition, Array(#"{"$uuid":"\#(id)"}"#.utf8)]
        default: [partition]
        }
    }

    /// The pattern without what only its spelling has: blanks, needless escapes, the order of keys, capital digits.
    private static func canonical(_ text: String) -> [UInt8] {
        if let value = PartitionValue(extendedJSON: text.utf8) { return value.bytes }
        guard let members = try? JSONValue(parsing: text.utf8).members else { return Array(text.utf8) }
        if members.count == 2, let base64 = members["$binary"]?.string, let type = members["$type"] {
            return binary(base64, type) ?? Array(text.utf8)
        }
        guard let (key, value) = members.first, members.count == 1 else { return Array(text.utf8) }
        switch (key.text, value) {
        case ("$oid", .string(let digits)), ("$uuid", .string(let digits)):
            return Array(#"{"\#(key)":\#(JSONText.quoted(digits.lowercased()))}"#.utf8)
        case ("$numberLong", .string(let digits)), ("$numberInt", .string(let digits)):
            return Array(#"{"\#(key)":\#(JSONText.quoted(digits))}"#.utf8)
        case ("$binary", .object(let parts)):
            return parts["base64"]?.string.flatMap { binary($0, parts["subType"]) } ?? Array(text.utf8)
        default: return Array(text.utf8)
        }
    }

    private static func binary(_ base64: String, _ subtype: JSONValue?) -> [UInt8]? {
        guard subtype == "4" || subtype == "04" else { return nil }
        return Array(#"{"$binary":{"base64":\#(JSONText.quoted(base64)),"subType":"04"}}"#.utf8)
    }
}
