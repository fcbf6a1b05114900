import AnabranchCore
package import AnabranchPropertyList

/// A command with its parameters checked (`Spec/OverTheAir.md`, section 3).
package enum Command: Equatable, Sendable {
    /// Asks for the value of a resource.
    case get(uri: String)
    /// Gives a resource a value.
    case put(uri: String, value: PropertyList, itemType: String?)
    /// Erases a resource.
    case delete(uri: String)
    /// Opens the exchange of a dataclass.
    case start(uri: String, Anchors)
    /// Changes of a dataclass.
    case changes(uri: String, Changes)
    /// Says that what was exchanged is to stay.
    case commit(uri: String, Anchors)
    /// Ends the exchange of a dataclass.
    case cancel(uri: String)

    /// Reads the parameters of a command.
    /// - Throws: the status for its response: `unknownCommand`, `missingParam` or `paramError`, with the parameter.
    package init(_ item: MessageItem) throws(Status) {
        guard Self.names.contains(item.name) else {
            throw Status(.unknownCommand, String(excerptOf: item.name.utf8))
        }
        guard let uriValue = item.params["uri"] else { throw Status(.missingParam, paramName: "uri") }
        guard let uri = uriValue.string, !uri.isEmpty else { throw Status(.paramError, "no text", paramName: "uri") }
        switch item.name {
        case "get": self = .get(uri: uri)
        case "delete": self = .delete(uri: uri)
        case "put":
            guard let value = item.params["value"] else { throw Status(.missingParam, paramName: "value") }
            if let fault = value.fault { throw Status(.badValue, fault, paramName: "value") }
            let itemType = item.params["item_type"]
            guard itemType == nil || itemType?.string != nil else {
                throw Status(.paramError, "no text", paramName: "item_type")
            }
            self = .put(uri: uri, value: value, itemType: itemType?.string)
        case "sync-start":
            let anchors = try Self.requiredAnchors(item)
            guard anchors.nextDeviceAnchor != nil else {
                throw Status(.missingParam, paramName: "anchors", paramKey: "next_device_anchor")
            }
            self = .start(uri: uri, anchors)
        case "sync-changes": self = .changes(uri: uri, try Changes(item.params))
        case "sync-commit": self = .commit(uri: uri, try Self.requiredAnchors(item))
        default:
            self = .cancel(uri: uri)
            if let anchors = item.params["anchors"] { _ = try Anchors(anchors) }
        }
    }

    private static let names: Set = [
        "get", "put", "delete", "sync-start", "sync-changes", "sync-commit", "sync-cancel",
    ]

    private static func requiredAnchors(_ item: MessageItem) throws(Status) -> Anchors {
        guard let anchors = item.params["anchors"] else { throw Status(.missingParam, paramName: "anchors") }
        return try Anchors(anchors)
    }

    /// The command as an item of a message.
    package func item(_ sequence: Int, hasMore: Bool = false) -> MessageItem {
        switch self {
        case .get(let uri): return MessageItem("get", sequence, ["uri": .string(uri)])
        case .delete(let uri): return MessageItem("delete", sequence, ["uri": .string(uri)])
        case .put(let uri, let value, let itemType):
            var params: PropertyListDictionary = ["uri": .string(uri), "value": value]
            params["item_type"] = itemType.map { .string($0) }
            return MessageItem("put", sequence, params)
        case .start(let uri, let anchors):
            return MessageItem("sync-start", sequence, ["uri": .string(uri), "anchors": anchors.propertyList])
        case .changes(let uri, let changes):
            var params = changes.params
            params["uri"] = .string(uri)
            return MessageItem("sync-changes", sequence, params, hasMore: hasMore)
        case .commit(let uri, let anchors):
            return MessageItem("sync-commit", sequence, ["uri": .string(uri), "anchors": anchors.propertyList])
        case .cancel(let uri): return MessageItem("sync-cancel", sequence, ["uri": .string(uri)])
        }
    }
}

extension PropertyList {
    /// The reason why a value is refused, if it or something in it is: an invalid value, or NaN.
    var fault: String? {
        switch self {
        case .refused(let error): return error.reason
        case .real(let number) where !number.isFinite: return "\(number) is not a value"
        case .array(let values): return values.lazy.compactMap(\.fault).first
        case .dictionary(let values): return values.lazy.compactMap(\.value.fault).first
        default: return nil
        }
    }

    /// About the bytes of the value in a message; not less in either form.
    package var messageByteCount: Int {
        switch self {
        case .string(let text): text.utf8.count + 5 * text.utf8.count { $0 == 0x26 || $0 == 0x3C || $0 == 0x3E } + 24
        case .data(let bytes): bytes.count * 4 / 3 + bytes.count / 50 + 24
        case .array(let values): values.reduce(24) { $0 + $1.messageByteCount }
        case .dictionary(let members):
            members.reduce(24) { $0 + PropertyList.string($1.key).messageByteCount + $1.value.messageByteCount }
        default: 48
        }
    }
}
