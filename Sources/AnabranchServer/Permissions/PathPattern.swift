/// A pattern for partition values: `*` matches any bytes, `${user}` the ident of the user who asks.
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
        var rest = Array(text.utf8)[...]
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

    func matches(_ path: [UInt8], user: String?) -> Bool {
        if user == nil, pieces.contains(.user) { return false }
        // nil stands for any bytes: a `*` in a user's ident is an ordinary character.
        let pattern = pieces.flatMap { piece -> [UInt8?] in
            switch piece {
            case .byte(let byte): [byte]
            case .any: [nil]
            case .user: Array((user ?? "").utf8)
            }
        }
        return Self.matches(path, pattern)
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
