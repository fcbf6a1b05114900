import AnabranchCore
import AnabranchSimperium

/// A change as a client asks for it (`Spec/Simperium.md`, section 8).
struct ChangeRequest: Sendable {
    enum Operation: Sendable {
        /// Makes or changes an entity: by a diff, or by the whole entity, which counts if it is there.
        case modify(ObjectDiff, full: EntityBody?)
        /// Makes members of an entity have these values; with `replaces`, it has no others then.
        case set(EntityBody, replaces: Bool)
        case delete
        /// Empties a bucket without entities: if it comes again, it empties nothing that has come since.
        case nothing
    }

    var key: String
    /// `ccid`
    var ident: String
    /// `clientid` of the channel.
    var client: String
    var operation: Operation
    /// `sv`: the version that the change was made against.
    var source: UInt64?
    /// True for a channel of `node-simperium`, which cannot answer some refusals.
    var isNode: Bool
    /// True if the client owes an answer to somebody else's deletion of the entity: then a deletion is that answer.
    var owesDeletion = false
    /// True if a change without a version merges with the present entity, whatever the bucket's settings say.
    var mergesWithoutVersion = false
    /// True for the last deletion of those that empty the bucket.
    var endsEmptying = false

    /// The longest `ccid`, in bytes.
    static let identBytesMax = 256

    /// True if a text can be a `ccid` or a `clientid`.
    static func isIdent(_ text: String) -> Bool { (1...identBytesMax).contains(text.utf8.count) }

    /// The texts that can be one, in words.
    static let identRule = "1 to \(identBytesMax) bytes are needed"
}

/// The outcome of a change request.
struct ChangeOutcome: Sendable, Equatable {
    /// The number of the refusal; nil if the change is accepted.
    var code: Int?
    /// The place and the reason of the refusal in words, for those who ask by HTTP.
    var reason = ""
    /// Of a repeated request: the change that was accepted for it.
    var duplicateOf: ChangePlace?
    /// True if the client's working copy may differ from the server's version that it has.
    var leavesCopyBehind = false
    /// True if the deletion was the answer to somebody else's.
    var paysDeletion = false

    static let accepted = ChangeOutcome()

    /// Of the store, which had failed.
    static let failed = "failed"

    /// The names that are counted.
    static let names = ["accepted", failed] + [400, 404, 405, 409, 412, 413, 417, 440].map { "\($0)" }

    /// The name by which it is counted: the number of the refusal.
    var name: String { code.map { "\($0)" } ?? "accepted" }

    static func refused(_ code: Int, _ reason: String, leavesCopyBehind: Bool = false) -> ChangeOutcome {
        ChangeOutcome(code: code, reason: reason, leavesCopyBehind: leavesCopyBehind)
    }

    static func refused(_ error: JSONDiffError) -> ChangeOutcome { refused(error.code.rawValue, error.description) }
}

extension ChangeRequest {
    /// The request of a message.
    /// - Throws: an error with a code of the wire.
    init(
        _ json: JSONValue, client: String, isNode: Bool
    ) throws(JSONDiffError) {
        guard let members = json.members else { throw JSONDiffError(.malformed, "a change is an object") }
        guard let key = members["id"]?.string, EntityKey.isValid(key) else {
            throw JSONDiffError(.malformed, EntityKey.rule).within("id")
        }
        guard let ident = members["ccid"]?.string, Self.isIdent(ident) else {
            throw JSONDiffError(.malformed, Self.identRule).within("ccid")
        }
        self.key = key
        self.ident = ident
        self.client = client
        self.isNode = isNode
        switch members["sv"] {
        case nil, .null?: source = nil
        case .integer(let number)? where number >= 0: source = UInt64(number)
        case .real(let number)? where number >= 0: source = UInt64(exactly: number) ?? .max
        case .string(let text)? where text.isEmpty: source = nil
        case .string(let text)?:
            guard let number = UInt64(text) else { throw Self.noVersion }
            source = number
        default: throw Self.noVersion
        }
        switch members["o"]?.string {
        case "-": operation = .delete
        case "M":
            let full = Self.full(members["d"], isNode: isNode)
            guard full != nil || members["v"] != nil else { throw JSONDiffError(.malformed, "v or d is needed") }
            let body = try full.map { members throws(JSONDiffError) in
                try JSONValue.object(members).normalized().members ?? [:]
            }
            // The whole entity counts whatever the diff says.
            operation = .modify(
                body == nil ? try ObjectDiff(parsing: members["v"] ?? .null) : ObjectDiff(), full: body)
        default: throw JSONDiffError(.malformed, "M or - is needed").within("o")
        }
    }

    private static let noVersion = JSONDiffError(.malformed, "a version is needed").within("sv")

    /// The whole entity that a change carries. That of node's resends is the old one, in a cover, and means nothing.
    private static func full(_ value: JSONValue?, isNode: Bool) -> EntityBody? {
        guard let members = value?.members else { return nil }
        let names = Set(members.keys.map(\.text))
        return isNode && (names == ["data", "version"] || names == ["data", "key"]) ? nil : members
    }
}
