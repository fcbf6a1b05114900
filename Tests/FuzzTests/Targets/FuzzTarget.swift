/// A part of the library that is fed with bytes that anybody might have sent: by libFuzzer (`Tests/Fuzz`), with the
/// inputs that it has found, and with mutations that follow from a seed.
enum FuzzTarget: String, CaseIterable, Sendable {
    /// A changeset, decoded and applied.
    case changeset
    /// A message of a client, as a server reads it.
    case clientMessage = "client-message"
    /// A message of a server, as a client reads it.
    case serverMessage = "server-message"
    /// Two sides of a merge; the bytes are the choices that make them.
    case transform
    /// A server's side of a connection; the bytes are what happens to it.
    case connection
    /// The text of a query.
    case query
    /// JSON, as the endpoints of App Services read it.
    case json
    /// Documents of MongoDB and lines of an export, to be imported.
    case documents
    /// A Realm file, which is not encrypted.
    case realmFile = "realm-file"
    /// A property list in XML.
    case xmlPropertyList = "xml-property-list"
    /// A property list in the binary form.
    case binaryPropertyList = "binary-property-list"
    /// A message of a property-list device or of its server.
    case overTheAirMessage = "over-the-air-message"
    /// Differences of Simperium's clients.
    case jsonDiff = "json-diff"
    /// Messages of one of Simperium's clients, and what they do to a file.
    case simperiumMessages = "simperium-messages"
    /// Requests for pages of a listing of Simperium's wire.
    case indexMark = "index-mark"

    /// The problem with the outcome for the bytes; nil if there is none. Whatever they are, nothing traps.
    func problem(of bytes: [UInt8]) -> String? {
        switch self {
        case .changeset: fuzzChangeset(bytes)
        case .clientMessage: fuzzClientMessage(bytes)
        case .serverMessage: fuzzServerMessage(bytes)
        case .transform: fuzzTransform(bytes)
        case .connection: fuzzConnection(bytes)
        case .query: fuzzQuery(bytes)
        case .json: fuzzJSON(bytes)
        case .documents: fuzzDocuments(bytes)
        case .realmFile: fuzzRealmFile(bytes)
        case .overTheAirMessage: fuzzOverTheAirMessage(bytes)
        case .xmlPropertyList, .binaryPropertyList: fuzzPropertyList(bytes)
        case .jsonDiff: fuzzJSONDiff(bytes)
        case .simperiumMessages: fuzzSimperiumMessages(bytes)
        case .indexMark: fuzzIndexMark(bytes)
        }
    }

    /// Pieces that inputs are made of, for mutations.
    var pieces: [String] {
        switch self {
        case .changeset: ["\u{3f}\u{0}", "T", "_id", "\u{0}\u{1}", "\u{7f}"]
        case .clientMessage:
            [
                "bind ", "ident ", "query ", "upload ", "mark ", "unbind ", "ping ", "json_error ", "test_command ",
                "\n",
                " 0", " 1", "-1", " 9223372036854775807", " 9223372036854775808", "{}", "x\u{9c}",
            ]
        case .serverMessage:
            [
                "ident ", "download ", "mark ", "unbound ", "pong ", "log_message ", "json_error ", "query_error ",
                "test_command ", "error ", "\n", " 0", " 1", " 9223372036854775807", #""action":"Transient""#, "{}",
            ]
        case .transform, .connection: ["\u{0}", "\u{1}", "\u{7f}"]
        case .query:
            [
                " and ", " or ", "not ", "(", ")", "{", "}", "[c]", "ANY ", "ALL ", "@count", "@links", ".", "'", "\"",
                "SUBQUERY(", "IN ", "BETWEEN ", "T1:2", "uuid(", "$0", "==", "TRUEPREDICATE", "SORT(", "LIMIT(",
                "B64\"",
            ]
        case .json:
            ["{", "}", "[", "]", ":", ",", "\"", "\\u", "\\ud83d", "null", "true", "-0", "1e999", "1.5", "\"email\""]
        case .documents:
            [
                "{\"_id\":", "{\"$oid\":\"", "{\"$numberLong\":\"", "{\"$date\":", "{\"$binary\":{\"base64\":\"",
                "{\"$numberDecimal\":\"", "{\"$uuid\":\"", "\n", "[\"Task\",", "{\"class\":", "null", "\"NaN\"",
                "1e400",
            ]
        case .xmlPropertyList:
            [
                "<dict>", "</dict>", "<array>", "</array>", "<array/>", "<key>", "</key>", "<string>", "</string>",
                "<data>", "</data>", "<integer>0x", "</integer>", "<real>1e400", "</real>",
                "<date>2000-02-29T00:00:00Z</date>", "<true/>", "<![CDATA[", "]]>", "<!--", "-->", "&#", "&amp;", ";",
                "\r\n", "<!DOCTYPE", "\u{FEFF}", "<?",
            ]
        case .binaryPropertyList: ["bplist00", "\u{0}", "\u{1}", "\u{7f}", "\u{8}", "\t", "\u{10}", "\u{13}", "3", "Q"]
        case .overTheAirMessage:
            [
                "<dict>", "</dict>", "<array>", "</array>", "<array/>", "<key>", "</key>", "<true/>",
                "<key>items</key>", "<key>anchors</key>", "<key>item_type</key>", "<key>result</key>",
                "<key>more</key>", "<key>op</key>", "<string>records</string>", "<string>modify</string>",
                "<key>deleted</key>", "<key>code</key>",
            ]
        case .jsonDiff:
            [
                "{\"o\":\"d\",\"v\":\"", "{\"o\":\"O\",\"v\":{", "{\"o\":\"L\",\"v\":{", "{\"o\":\"dL\",\"v\":\"",
                "{\"o\":\"I\",\"v\":", "{\"o\":\"-\"}", "{\"o\":\"+\",\"v\":", "{\"o\":\"r\",\"v\":", "\\t", "\t",
                "=1", "-1", "+%F0%9F%90%99", "+%ED%A0%BC", "%ED%BE%80", "\n", "}", "]", ",", "🐙", "1e308", "-0",
            ]
        case .simperiumMessages:
            [
                "0:", "1:", "\n", "init:{", "c:{\"o\":\"M\",\"id\":\"k0\",\"ccid\":\"", "c:{\"o\":\"-\",\"id\":\"k1\",",
                "\"sv\":1", "\"d\":{", "\"v\":{\"t\":{\"o\":\"d\",\"v\":\"", "e:k0.1", "i:1:::", "cv:", "h:1", "EMPTY",
                "=1",
                "-1", "+x", "\\t", "{\"o\":\"+\",\"v\":", "[\"", "a/websocket", "%2F", "4:", "/1/a/deep/i/k0/v/1 {",
                "/1/a/typed/i/k0?replace=1 {", "?delete=1", "{\"o\":\"r\",\"v\":[",
            ]
        case .indexMark:
            [
                ":", "1:", "0000000000000000", "00000001", "ffffffff", "\n", "-1", "1000", "?", "mark=", "&limit=",
                "&since=", "&data=1", "%30",
            ]
        case .realmFile: ["AAAA", "AAAAE\u{0}\u{0}", "T-DB", "class_", "\u{0}", "\u{1}", "\u{7f}"]
        }
    }
}
