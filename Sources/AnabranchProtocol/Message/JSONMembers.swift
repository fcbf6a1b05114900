import AnabranchCore

/// The members of a JSON object in a message; members that nobody asks for are ignored.
struct JSONMembers {
    private let members: [String: JSONValue]
    private let head: HeadReader

    /// - Throws: an error with the code 103, also if the body is a value other than an object.
    init(_ body: NumberReader, of head: HeadReader) throws(ProtocolError) {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(parsing: body.bytes[body.position...])
        } catch {
            throw head.syntax("JSON at byte \(error.offset): \(error.reason)")
        }
        guard let members = value.object else { throw head.syntax("JSON that is no object") }
        self.init(members, head)
    }

    private init(_ members: [String: JSONValue], _ head: HeadReader) {
        self.members = members
        self.head = head
    }

    func has(_ key: String) -> Bool { members[key] != nil }

    func text(_ key: String) throws(ProtocolError) -> String { try require(key) { $0.string } }

    func flag(_ key: String) throws(ProtocolError) -> Bool { try require(key) { $0.bool } }

    func number(_ key: String) throws(ProtocolError) -> Int { try require(key) { $0.integer.flatMap(Int.init) } }

    /// A number of 0 … 2^63 − 1.
    func version<Version: TypedNumber>(_ key: String) throws(ProtocolError) -> Version {
        Version(rawValue: try unsignedNumber(key))
    }

    /// A number of 0 … 2^63 − 1.
    func unsignedNumber(_ key: String) throws(ProtocolError) -> UInt64 {
        try require(key) { $0.integer.flatMap(UInt64.init(exactly:)) }
    }

    func objects(_ key: String) throws(ProtocolError) -> [JSONMembers] {
        var objects: [JSONMembers] = []
        for element in try require(key, { $0.array }) {
            guard let members = element.object else { throw error(key) }
            objects.append(JSONMembers(members, head))
        }
        return objects
    }

    /// The error for a member that is missing or invalid.
    func error(_ key: String) -> ProtocolError { head.syntax("JSON without a valid \"\(key)\"") }

    private func require<Value>(
        _ key: String, _ value: (JSONValue) -> Value?
    ) throws(ProtocolError) -> Value {
        guard let value = members[key].flatMap(value) else { throw error(key) }
        return value
    }
}
