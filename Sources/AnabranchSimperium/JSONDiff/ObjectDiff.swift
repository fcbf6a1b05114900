package import AnabranchCore

/// The difference between two JSON objects: an operation for each member that is not the same in both
/// (`Spec/Simperium.md`, section 1).
package struct ObjectDiff: Equatable, Sendable {
    package var members: [JSONName: JSONOperation]

    package init(_ members: [JSONName: JSONOperation] = [:]) { self.members = members }

    /// True if it changes nothing.
    package var isEmpty: Bool { members.isEmpty }

    /// The difference as the server tells it: only `+`, `-`, `r`, `O` and `d`, and `d` for every string that was one.
    package init(from old: [JSONName: JSONValue], to new: [JSONName: JSONValue]) {
        self.init()
        for name in old.keys where new[name] == nil { members[name] = .remove }
        for (name, value) in new { members[name] = JSONOperation(from: old[name], to: value) }
    }

    // MARK: JSON

    /// How many operations may stand within each other.
    static let depthMax = JSONValue.depthMax

    /// Reads a diff as clients send it, in the member `v` of a change. Numbers take their one form, and members of
    /// operations that mean nothing are passed over.
    /// - Throws: An error with the code 400.
    package init(parsing json: JSONValue) throws(JSONDiffError) { try self.init(parsing: json, depth: 1) }

    fileprivate init(parsing json: JSONValue, depth: Int) throws(JSONDiffError) {
        guard let members = json.members else { throw JSONDiffError(.malformed, "a diff is an object") }
        self.init()
        for (name, operation) in members.inOrder {
            do {
                self.members[name] = try JSONOperation(parsing: operation, depth: depth)
            } catch {
                throw error.within(name.text)
            }
        }
    }

    package var json: JSONValue { .object(members.mapValues(\.json)) }
}

/// The change of one member of an object, or of one element of a list.
package enum JSONOperation: Equatable, Sendable {
    /// `+`: adds a member, or an element before the place.
    case add(JSONValue)
    /// `-`
    case remove
    /// `r`
    case replace(JSONValue)
    /// `O`: changes members of an object.
    case object(ObjectDiff)
    /// `d`: edits a string.
    case text(TextDelta)
    /// `L`: changes elements of a list; see `ListEdit` for the meaning of the indexes.
    case list([Int: JSONOperation])
    /// `dL`: edits a list in its form as text, a line for each element.
    case listText(TextDelta)
    /// `I`: adds to a number.
    case increment(JSONValue)

    /// The operation that turns one value, or none, into another; nil if they are the same.
    init?(from old: JSONValue?, to new: JSONValue) {
        switch (old, new) {
        case (nil, _): self = .add(new)
        case (let old?, _) where old.isSameJSON(as: new): return nil
        case (.object(let old), .object(let new)): self = .object(ObjectDiff(from: old, to: new))
        case (.string(let old), .string(let new)): self = .text(TextDelta(from: old, to: new))
        default: self = .replace(new)
        }
    }

    // MARK: JSON

    fileprivate init(parsing json: JSONValue, depth: Int) throws(JSONDiffError) {
        guard depth <= ObjectDiff.depthMax else { throw JSONDiffError(.malformed, "too deep") }
        guard let members = json.members, let kind = members["o"]?.string else {
            throw JSONDiffError(.malformed, "no operation: it has no \"o\"")
        }
        let value = members["v"]
        switch (kind, value) {
        case ("-", _): self = .remove
        case ("+", let value?): self = .add(try value.normalized())
        case ("r", let value?): self = .replace(try value.normalized())
        case ("O", let value?): self = .object(try ObjectDiff(parsing: value, depth: depth + 1))
        case ("d", .string(let text)): self = .text(try TextDelta(decoding: text))
        case ("dL", .string(let text)): self = .listText(try TextDelta(decoding: text))
        case ("L", .object(let elements)): self = .list(try Self.operations(parsing: elements, depth: depth + 1))
        case ("I", .integer), ("I", .largeInteger), ("I", .real):
            self = .increment(try (value ?? .null).normalized())
        case ("+", nil), ("r", nil), ("O", nil), ("d", _), ("dL", _), ("L", _), ("I", _):
            throw JSONDiffError(.malformed, "the operation \(kind) has no value of its kind")
        default:
            throw JSONDiffError(.malformed, "no kind of operation: \(String(excerptOf: kind.utf8))")
        }
    }

    private static func operations(
        parsing elements: [JSONName: JSONValue], depth: Int
    ) throws(JSONDiffError) -> [Int: JSONOperation] {
        var operations: [Int: JSONOperation] = [:]
        for (name, operation) in elements.inOrder {
            do throws(JSONDiffError) {
                guard name.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let index = Int(name.text) else {
                    throw JSONDiffError(.malformed, "no index")
                }
                let former = operations.updateValue(try JSONOperation(parsing: operation, depth: depth), forKey: index)
                guard former == nil else { throw JSONDiffError(.malformed, "an index twice") }
            } catch {
                throw error.within(name.text)
            }
        }
        return operations
    }

    package var json: JSONValue {
        switch self {
        case .add(let value): ["o": "+", "v": value]
        case .remove: ["o": "-"]
        case .replace(let value): ["o": "r", "v": value]
        case .object(let diff): ["o": "O", "v": diff.json]
        case .text(let delta): ["o": "d", "v": .string(delta.encoded)]
        case .list(let operations):
            ["o": "L", "v": .object(Dictionary(operations.map { (String($0.key), $0.value.json) }) { $1 })]
        case .listText(let delta): ["o": "dL", "v": .string(delta.encoded)]
        case .increment(let number): ["o": "I", "v": number]
        }
    }
}

extension Dictionary where Key: Comparable {
    /// The same order in each run, so that of several errors always the same one is reported.
    var inOrder: [Element] { sorted { $0.key < $1.key } }
}
