import AnabranchCore
import AnabranchHistory
import AnabranchSimperium

/// An accepted change, as it is sent to all channels of its bucket (`Spec/Simperium.md`, section 8).
struct Change: Sendable {
    /// How deep the JSON of messages and records may be: an object of the greatest depth as a diff.
    static let jsonDepth = 3 * JSONValue.depthMax + 8

    /// How many values there may be in it, about as many as an entity of 1 MiB can have: as the smallest objects, they
    /// take 100 MiB.
    static let valuesMax = 524_288

    /// Reads JSON with changes or entities as clients send it.
    static func json(_ bytes: some Collection<UInt8>) throws(JSONError) -> JSONValue {
        try JSONValue(parsing: bytes, depthMax: jsonDepth, valuesMax: valuesMax, replacesHalves: true)
    }

    /// The longest message with one change, in bytes. Some clients come back for a longer one for ever.
    static let messageBytesMax = 4 << 20
    /// The bytes of a message around its change.
    private static let envelopeBytes = 64

    /// The author of changes that come from elsewhere.
    static let otherClient = "anabranch"

    let place: ChangePlace
    /// The change as JSON, on one line.
    let text: String
    let key: String
    let client: String
    let requests: [String]
    let isDeletion: Bool
    /// The version before; nil if the change creates the entity.
    let source: UInt64?
    let version: UInt64
    /// The value of `v`.
    let diff: JSONValue?
    /// The bytes that its record counts for.
    let counted: UInt32

    /// Reads a change as the records have it.
    init(text: String, place: ChangePlace, counted: UInt32 = 0) throws(HistoryError) {
        guard let json = try? JSONValue(parsing: text.utf8, depthMax: Self.jsonDepth), let key = json["id"]?.string,
            let client = json["clientid"]?.string, let version = json["ev"]?.integer
        else { throw HistoryError(.storeDamaged, "a change of Simperium's door is unreadable") }
        self.place = place
        self.counted = counted
        self.text = text
        self.key = key
        self.client = client
        requests = (json["ccids"]?.array ?? []).compactMap(\.string)
        isDeletion = json["o"]?.string == "-"
        source = (json["sv"]?.integer).map { UInt64(clamping: $0) }
        self.version = UInt64(clamping: version)
        diff = json["v"]
    }

    /// The JSON of a change.
    /// - Parameters:
    ///   - diff: nil for a deletion.
    ///   - content: the members after the change.
    ///   - source: nil for a creation.
    static func text(
        client: String, key: String, diff: ObjectDiff?, to content: EntityBody?, from source: UInt64?,
        to version: UInt64, cv: String, requests: [String]
    ) -> String {
        func text(_ diff: ObjectDiff?) -> String {
            Self.text(
                client: client, key: key, diff: diff?.json, from: source, to: version, cv: cv, requests: requests)
        }
        let told = text(diff)
        guard told.utf8.count > messageBytesMax - envelopeBytes, let content else { return told }
        return text(diff?.inWholeMembers(of: content))
    }

    private static func text(
        client: String, key: String, diff: JSONValue?, from source: UInt64?, to version: UInt64, cv: String,
        requests: [String]
    ) -> String {
        var text = "{\"clientid\":\(JSONValue.string(client).encoded),\"id\":\(JSONValue.string(key).encoded)"
        text += ",\"o\":\"\(diff == nil ? "-" : "M")\""
        if let diff { text += ",\"v\":\(diff.encoded)" }
        if let source { text += ",\"sv\":\(source)" }
        return text + ",\"ev\":\(version),\"cv\":\"\(cv)\""
            + ",\"ccids\":\(JSONValue.array(requests.map { .string($0) }).encoded)}"
    }
}
