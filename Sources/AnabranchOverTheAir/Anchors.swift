package import AnabranchPropertyList

/// The knowledge of both sides about a sync state (`Spec/OverTheAir.md`, section 3). A key that is absent says nothing.
package struct Anchors: Equatable, Sendable {
    /// The extent of an exchange.
    package enum Mode: String, CaseIterable, Sendable {
        /// Changes since the last sync.
        case fast
        /// All records, which the server matches with its own.
        case slow
        /// All records of the server; the device gives up its own.
        case reset
    }

    /// The sides that send changes.
    package enum Direction: String, CaseIterable, Sendable {
        /// Both.
        case both = "twoway"
        /// The device alone.
        case toServer = "to_server"
        /// The server alone.
        case toDevice = "to_device"
    }

    package var mode: Mode?
    package var direction: Direction?
    /// Versions of the agents.
    package var deviceVersion, serverVersion: String?
    /// Names of the device's sets of changes.
    package var lastDeviceAnchor, nextDeviceAnchor: String?
    /// Checkpoints of the server's.
    package var lastServerAnchor, nextServerAnchor: String?
    /// The version of the filter in force, and the last reset of the data.
    package var filterAnchor, resetAnchor: String?

    package init() {}

    private static var texts: [(String, WritableKeyPath<Anchors, String?>)] {
        [
            ("device_version", \.deviceVersion), ("server_version", \.serverVersion),
            ("last_device_anchor", \.lastDeviceAnchor), ("next_device_anchor", \.nextDeviceAnchor),
            ("last_server_anchor", \.lastServerAnchor), ("next_server_anchor", \.nextServerAnchor),
            ("filter_anchor", \.filterAnchor), ("reset_anchor", \.resetAnchor),
        ]
    }

    /// - Throws: the status for the response.
    package init(_ value: PropertyList) throws(Status) {
        guard let members = value.dictionary else { throw Status(.paramError, "no dictionary", paramName: "anchors") }
        func text(_ key: String) throws(Status) -> String? {
            guard let value = members[key] else { return nil }
            guard let text = value.string else {
                throw Status(.paramError, "no text", paramName: "anchors", paramKey: key)
            }
            return text
        }
        func choice<Choice: RawRepresentable<String>>(_ key: String) throws(Status) -> Choice? {
            guard let text = try text(key) else { return nil }
            guard let choice = Choice(rawValue: text) else {
                throw Status(.paramError, "an unknown \(key)", paramName: "anchors", paramKey: key)
            }
            return choice
        }
        mode = try choice("mode")
        direction = try choice("direction")
        for (key, path) in Self.texts { self[keyPath: path] = try text(key) }
    }

    /// The dictionary.
    package var propertyList: PropertyList {
        var members: PropertyListDictionary = [:]
        members["mode"] = mode.map { .string($0.rawValue) }
        members["direction"] = direction.map { .string($0.rawValue) }
        for (key, path) in Self.texts { members[key] = self[keyPath: path].map { .string($0) } }
        return .dictionary(members)
    }
}
