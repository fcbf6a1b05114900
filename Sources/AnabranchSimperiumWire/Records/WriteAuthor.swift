import AnabranchCore
import AnabranchSimperium

/// The author of a write at the head, as the door tells it to its own observer.
struct WriteAuthor {
    /// The `clientid` of the channel.
    var client: String
    /// The `ccid` of the change request.
    var request: String
    var key: String
    /// The change as it was merged; nil for a deletion, or if nobody has made a diff yet.
    var diff: ObjectDiff?

    private static let mark = Array("simperium ".utf8)

    var bytes: [UInt8] {
        var json: [String: JSONValue] = [
            "client": .string(client), "request": .string(request), "key": .string(key),
        ]
        json["diff"] = diff?.json
        return Self.mark + Array(JSONValue.object(json).encoded.utf8)
    }

    init(client: String, request: String, key: String, diff: ObjectDiff?) {
        self.client = client
        self.request = request
        self.key = key
        self.diff = diff
    }

    /// - Returns: nil if the author is another door's, or nobody.
    init?(_ bytes: [UInt8]?) {
        guard let bytes, bytes.starts(with: Self.mark),
            let json = try? JSONValue(parsing: bytes.dropFirst(Self.mark.count), depthMax: Change.jsonDepth),
            let client = json["client"]?.string, let request = json["request"]?.string, let key = json["key"]?.string
        else { return nil }
        self.init(
            client: client, request: request, key: key, diff: json["diff"].flatMap { try? ObjectDiff(parsing: $0) })
    }
}
