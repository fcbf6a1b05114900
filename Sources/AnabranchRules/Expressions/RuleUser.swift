import AnabranchCore

/// The data of a user that rules can ask for. They do not change during a session.
package struct RuleUser: Hashable, Sendable {
    /// The user's ident: `%%user.id`.
    package let id: String
    /// The name that the app's own issuer of tokens gives the user, or else the ident: `$user.id` in queries.
    package let name: String
    private let document: JSONDocument

    /// - Parameters:
    ///   - name: the name that the app's own issuer of tokens gives the user; nil if there is no such issuer.
    ///   - customData: `%%user.custom_data`, a JSON object; its values may be extended JSON.
    ///   - data: `%%user.data`, the data from the provider, such as the e-mail address.
    ///   - providers: the log-ins of the user: `%%user.identities.provider_type`.
    /// - Throws: `RuleError` if `customData` or `data` is not a JSON object.
    package init(
        id: String, name: String? = nil, customData: String = "{}", data: String = "{}", providers: [String] = []
    ) throws(RuleError) {
        self.id = id
        self.name = name ?? id
        document = JSONDocument(
            value: [
                "id": .string(id), "type": "normal",
                "custom_data": try Self.object(customData, "the custom data of user \(id)"),
                "data": try Self.object(data, "the data of user \(id)"),
                "identities": .array(providers.map { ["provider_type": .string($0)] }),
            ])
    }

    private static func object(_ text: String, _ name: String) throws(RuleError) -> JSONValue {
        let node = try JSONNode(parsing: AppFile(path: name, bytes: text.utf8))
        guard node.value.object != nil else { throw node.error("an object is expected") }
        return node.value
    }

    private init(_ id: String, _ document: JSONValue) {
        (self.id, name) = (id, id)
        self.document = JSONDocument(value: document)
    }

    /// A user for conditions that use no data of a user.
    static let nobody = RuleUser("", [:])

    // MARK: Values

    /// The value of a user's property.
    enum Value: Hashable {
        case one(Payload)
        case many([Payload])
        case document
    }

    /// The value at the end of a path, which leads through documents, and through lists to each of their elements. Nil
    /// if there is none.
    func value(at path: [String]) -> Value? {
        document.value.descendant(path[...]).map { value in
            if let elements = value.array { return .many(elements.compactMap(\.constant)) }
            return value.constant.map(Value.one) ?? .document
        }
    }

    /// JSON that is hashed by its text.
    private struct JSONDocument: Hashable, Sendable {
        let value: JSONValue
        func hash(into hasher: inout Hasher) { hasher.combine(value.encoded) }
    }
}

extension JSONValue {
    fileprivate func descendant(_ path: ArraySlice<String>) -> JSONValue? {
        guard let name = path.first else { return self }
        if let elements = array {
            let found = elements.compactMap { $0.descendant(path) }
            return found.isEmpty ? nil : .array(found)
        }
        return self[name]?.descendant(path.dropFirst())
    }
}
