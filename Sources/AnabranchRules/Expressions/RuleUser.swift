import AnabranchCore

/// What rules can ask of a user. It stays as it is for a whole session.
package struct RuleUser: Hashable, Sendable {
    /// The user's ident: `%%user.id`.
    package let id: String
    /// What the app's own issuer of tokens calls the user, or else the ident: `$user.id` in queries.
    package let name: String
    private let document: JSONDocument

    /// - Parameters:
    ///   - name: by which the app's own issuer of tokens knows the user; nil if none does.
    ///   - customData: `%%user.custom_data`, a JSON object; its values may be extended JSON.
    ///   - data: `%%user.data`, what the provider told, such as the e-mail address.
    ///   - providers: the log-ins of the user: `%%user.identities.provider_type`.
    /// - Throws: `RuleError` if `customData` or `data` is no JSON object.
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

    /// For conditions that ask for nothing of a user.
    static let nobody = RuleUser("", [:])

    // MARK: Values

    /// Something of a user.
    enum Value: Hashable {
        case one(Payload)
        case many([Payload])
        case document
    }

    /// What stands at the end of a path, which leads through documents, and through lists to each of their elements.
    /// Nil if nothing does.
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
