import AnabranchCore

/// Mixed values: for each a code, which is its type and the value itself, or its place in one of the arrays next to the
/// codes.
struct MixedLeaf: ColumnLeaf {
    /// The types that a code can name, by their numbers in the file.
    private enum Kind: UInt8 {
        case int = 0, bool = 1, string = 2, binary = 4, timestamp = 8, float = 9, double = 10, decimal = 11
        case linkInOwnClass = 12, objectID = 15, link = 16, uuid = 17, list = 19, dictionary = 21

        /// The arrays in which its values can stand.
        var parts: [Part] {
            switch self {
            case .int: [.code, .integers]
            case .bool: [.code]
            case .float, .double, .linkInOwnClass: [.integers]
            case .timestamp, .decimal, .link: [.pairs]
            case .string, .binary, .objectID, .uuid: [.strings]
            case .list, .dictionary: [.collections]
            }
        }
    }

    private enum Part: Int { case code, integers, pairs, strings, collections }

    private struct Code {
        let kind: Kind
        let part: Part
        /// The value itself, or its place in the part.
        let number: Int64

        init?(_ code: Int64) {
            guard code & 0x1F > 0, let kind = Kind(rawValue: UInt8(code & 0x1F) - 1),
                let part = Part(rawValue: Int(code >> 5 & 7)), kind.parts.contains(part)
            else { return nil }
            (self.kind, self.part, number) = (kind, part, code >> 8)
        }
    }

    private let codes: ArrayNode
    private var integers: ArrayNode?
    private var pairs: ArrayNode?
    private var strings: StringLeaf?
    private var collections: ArrayNode?

    init(_ node: ArrayNode, in reading: FileReading) throws(RealmFileError) {
        try node.requireRefs()
        guard 4...6 ~= node.count else { throw .damaged(at: node.ref, "Mixed values of \(node.count) parts") }
        codes = try reading.integers(node.integer(at: 0))
        var used: [Part: Set<Int64>] = [:]
        for index in 0..<codes.count where codes.integer(at: index) != 0 {
            guard let code = Code(codes.integer(at: index)) else {
                throw .damaged(
                    at: node.ref, "a Mixed value of the code \(codes.integer(at: index)), which there is not")
            }
            guard code.part != .code else {
                guard code.kind != .bool || 0...1 ~= code.number else {
                    throw .damaged(at: node.ref, "\(code.number) is not of type Bool")
                }
                continue
            }
            try load(code.part, of: node, in: reading)
            guard 0..<Int64(elementCount(of: code.part)) ~= code.number else {
                throw .damaged(
                    at: node.ref, "a Mixed value names element \(code.number) of \(elementCount(of: code.part))")
            }
            guard used[code.part, default: []].insert(code.number).inserted else {
                throw .damaged(at: node.ref, "two Mixed values name one element")
            }
            try check(code, of: node, in: reading)
        }
    }

    private mutating func load(_ part: Part, of node: ArrayNode, in reading: FileReading) throws(RealmFileError) {
        let isLoaded =
            switch part {
            case .code: true
            case .integers: integers != nil
            case .pairs: pairs != nil
            case .strings: strings != nil
            case .collections: collections != nil
            }
        guard !isLoaded else { return }
        let ref = part.rawValue < node.count ? node.integer(at: part.rawValue) : 0
        guard ref != 0 else { throw .damaged(at: node.ref, "Mixed values without the part that one of them names") }
        switch part {
        case .code: break
        case .integers: integers = try reading.integers(ref)
        case .pairs: pairs = try reading.integers(ref)
        case .strings: strings = try StringLeaf(try reading.array(ref), in: reading)
        case .collections: collections = try reading.integers(ref)
        }
    }

    private func elementCount(of part: Part) -> Int {
        switch part {
        case .code: 0
        case .integers: integers?.count ?? 0
        case .pairs: (pairs?.count ?? 0) / 2
        case .strings: strings?.count ?? 0
        case .collections: collections?.count ?? 0
        }
    }

    private func check(_ code: Code, of node: ArrayNode, in reading: FileReading) throws(RealmFileError) {
        switch code.kind {
        case .string, .binary, .objectID, .uuid:
            guard let byteCount = strings?.byteCount(at: Int(code.number)) else {
                throw .damaged(at: node.ref, "a Mixed value that is null inside")
            }
            guard code.kind != .objectID || byteCount == 12, code.kind != .uuid || byteCount == 16 else {
                throw .damaged(at: node.ref, "a Mixed identifier of \(byteCount) bytes")
            }
        case .timestamp:
            let (seconds, nanoseconds) = pair(code.number)
            _ = try Timestamp(seconds: seconds, checking: nanoseconds, of: node)
        case .linkInOwnClass: reading.report(notSeen: "a link without a class in a Mixed value")
        default: break
        }
    }

    // MARK: Elements

    var count: Int { codes.count }

    private func integer(_ place: Int64) -> Int64 { integers?.integer(at: Int(place)) ?? 0 }

    private func pair(_ place: Int64) -> (Int64, Int64) {
        guard let pairs else { return (0, 0) }
        return (pairs.integer(at: 2 * Int(place)), pairs.integer(at: 2 * Int(place) + 1))
    }

    private func bytes(_ place: Int64) -> [UInt8] { strings?.bytes(at: Int(place)) ?? [] }

    func element(at index: Int) -> Element {
        guard let code = Code(codes.integer(at: index)) else { return .value(.null) }
        let number = code.number
        switch code.kind {
        case .int: return .value(.int(code.part == .code ? number : integer(number)))
        case .bool: return .value(.bool(number == 1))
        case .string: return .value(.string(bytes(number)))
        case .binary: return .value(.binary(bytes(number)))
        case .timestamp:
            let (seconds, nanoseconds) = pair(number)
            let part = Int32(truncatingIfNeeded: nanoseconds)
            return .value(.timestamp(Timestamp(seconds: seconds, nanoseconds: part)))
        case .float: return .value(.float(Float(bitPattern: UInt32(truncatingIfNeeded: integer(number)))))
        case .double: return .value(.double(Double(bitPattern: UInt64(bitPattern: integer(number)))))
        case .decimal:
            let (low, high) = pair(number)
            return .value(.decimal(Decimal128(low: UInt64(bitPattern: low), high: UInt64(bitPattern: high))))
        case .objectID: return .value(ObjectID(bytes(number)).map(Payload.objectID) ?? .null)
        case .uuid: return .value(UUIDBytes(bytes(number)).map(Payload.uuid) ?? .null)
        case .linkInOwnClass: return .link(ObjectReference(table: nil, object: integer(number)))
        case .link:
            let (table, object) = pair(number)
            return .link(ObjectReference(table: table & 0xFFFF_FFFF, object: object))
        case .list, .dictionary:
            let ref = collections?.integer(at: Int(number)) ?? 0
            return code.kind == .list ? .list(ref) : .dictionary(ref)
        }
    }
}
