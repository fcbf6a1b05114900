import AnabranchCore
import AnabranchSimperium

/// The author of a write at the head, as the door tells it to its own observer.
struct WriteAuthor {
    /// The `clientid` of the channel.
    var client: String
    /// The `ccid` of the change request.
    var request: String
    /// The entity: others may be changed with it.
    var bucket: String
    var key: String
    /// The change as it was merged; nil for a deletion, or if nobody has made a diff yet.
    var diff: ObjectDiff?

    private static let mark = Array("simperium ".utf8)

    var bytes: [UInt8] {
        var json: [String: JSONValue] = [
            "client": .string(client), "request": .string(request), "bucket": .string(bucket), "key": .string(key),
        ]
        json["diff"] = diff?.json
        return Self.mark + Array(JSONValue.object(json).encoded.utf8)
    }

    init(client: String, request: String, bucket: String, key: String, diff: ObjectDiff?) {
        self.client = client
        self.request = request
        self.bucket = bucket
        self.key = key
        self.diff = diff
    }

    /// - Returns: nil if the author is another door's, or nobody.
    init?(_ bytes: [UInt8]?) {
        guard let bytes, bytes.starts(with: Self.mark),
            let json = try? JSONValue(parsing: bytes.dropFirst(Self.mark.count), depthMax: Change.jsonDepth),
            let client = json["client"]?.string, let request = json["request"]?.string,
            let bucket = json["bucket"]?.string, let key = json["key"]?.string
        else { return nil }
        let diff = json["diff"].flatMap { try? ObjectDiff(parsing: $0) }
        self.init(client: client, request: request, bucket: bucket, key: key, diff: diff)
    }
}
