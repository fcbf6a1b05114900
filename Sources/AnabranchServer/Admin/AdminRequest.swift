import AnabranchCore
import AnabranchHistory
import Foundation
import NIOHTTP1

/// The endpoints of the admin interface (`Spec/Admin.md`, section 2).
enum AdminRoute: String {
    case health = "GET /health"
    case ready = "GET /ready"
    case metrics = "GET /metrics"
    case files = "GET /v1/files"
    case file = "GET /v1/file"
    case clients = "GET /v1/clients"
    case history = "GET /v1/history"
    case explain = "GET /v1/explain"
    case sessions = "GET /v1/sessions"
    case ingested = "GET /v1/ingested"
    case classes = "GET /v1/classes"
    case doors = "GET /v1/doors"
    case dropDoor = "POST /v1/doors/drop"
    case actOnDoor = "POST /v1/doors/act"
    case importLines = "POST /v1/import"
    case importChanges = "POST /v1/import/changes"
    case users = "GET /v1/users"
    case user = "GET /v1/user"
    case disconnect = "POST /v1/sessions/disconnect"
    case expire = "POST /v1/clients/expire"
    case freeIngested = "POST /v1/ingested/free"
    case deleteFile = "POST /v1/files/delete"
    case maintainFile = "POST /v1/files/maintain"
    case maintainStore = "POST /v1/store/maintain"
    case trustClock = "POST /v1/clock/trust"
    case revoke = "POST /v1/users/revoke"
    case disable = "POST /v1/users/disable"
    case enable = "POST /v1/users/enable"
    case addUser = "POST /v1/users/add"
    case deleteUser = "POST /v1/users/delete"
    case setPassword = "POST /v1/users/set-password"
    case setData = "POST /v1/users/set-data"

    init?(_ request: EndpointRequest) { self.init(rawValue: "\(request.method.rawValue) \(request.path)") }

    /// True for the path of an endpoint, and for all others that stay free for endpoints to come.
    static func has(_ path: Substring) -> Bool {
        path.hasPrefix("/v1/") || [health, ready, metrics].contains { $0.rawValue == "GET \(path)" }
    }

    /// The paths of the requests whose body is long.
    static let longPaths: Set<Substring> = ["/v1/import", "/v1/import/changes", "/v1/doors/act"]
}

/// The query of a listing: `after`, `limit`, where a file is meant `path`, where users are meant `app`, `email` and
/// `user`, for an import `strict`, `fill`, `time` and `ident`, and for an explanation `version`.
struct ListingQuery {
    private static let names: Set = [
        "after", "limit", "path", "app", "email", "user", "strict", "fill", "time", "ident",
        "version",
    ]
    /// The number of elements listed by default.
    private static let usualCount = 100

    private var values: [String: String] = [:]
    let countMax: Int

    init(_ query: String, countMax: Int) throws(HTTPError) {
        for pair in query.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let value = Self.decoded(parts[1]),
                values.updateValue(value, forKey: String(parts[0])) == nil
            else { throw .badRequest("the query cannot be read") }
        }
        if let name = values.keys.first(where: { !Self.names.contains($0) }) {
            throw .badRequest("there is no parameter '\(name.prefix(100))'")
        }
        let limit = values["limit"].map { Int($0) ?? 0 } ?? min(Self.usualCount, countMax)
        guard (1...countMax).contains(limit) else { throw .badRequest("limit has to be 1 to \(countMax)") }
        self.countMax = limit
    }

    /// The file that the query is about.
    func path() throws(HTTPError) -> VirtualPath {
        guard let path = values["path"] else { throw .badRequest("path is missing") }
        return try VirtualPath(ofRequest: path)
    }

    /// The file that the query may be about.
    func optionalPath() throws(HTTPError) -> VirtualPath? { values["path"] == nil ? nil : try path() }

    /// The path after which a listing of files goes on.
    func afterPath() throws(HTTPError) -> VirtualPath? {
        guard let word = values["after"] else { return nil }
        return try VirtualPath(ofRequest: word)
    }

    /// The number after which a listing goes on.
    func afterNumber() throws(HTTPError) -> UInt64 {
        guard let word = values["after"] else { return 0 }
        guard let number = UInt64(word) else { throw .badRequest("after has to be a number") }
        return number
    }

    /// True if an import ends at the first line that is refused.
    var isStrict: Bool { values["strict"] == "true" }

    /// True if an import leaves existing objects alone.
    var isFilling: Bool { values["fill"] == "true" }

    /// The time of the imported state; nil for the moment of the import.
    func time() throws(HTTPError) -> ChangesetTime? {
        guard let word = values["time"] else { return nil }
        guard let number = UInt64(word) else { throw .badRequest("time has to be a number") }
        return ChangesetTime(rawValue: number)
    }

    /// The client file ident of the file that changes are from.
    func clientFileIdent() throws(HTTPError) -> ClientFileID {
        guard let number = UInt64(values["ident"] ?? "") else { throw .badRequest("ident has to be a number") }
        return ClientFileID(rawValue: number)
    }

    /// The version of the file's log that is meant.
    func version() throws(HTTPError) -> ServerVersion {
        guard let number = UInt64(values["version"] ?? "") else { throw .badRequest("version has to be a number") }
        return ServerVersion(rawValue: number)
    }

    /// The app whose users are meant.
    var app: String? { values["app"] }
    /// The ident of the user in question.
    var user: String? { values["user"] }

    /// The app and the e-mail address of the user in question; nil if the query names none.
    func email() throws(HTTPError) -> (app: String, name: String)? {
        guard let name = values["email"] else { return nil }
        guard let app else { throw .badRequest("email needs app: users of different apps have nothing in common") }
        return (app, name)
    }

    /// The word after which a listing goes on.
    var afterWord: String { values["after"] ?? "" }

    /// The session after which a listing goes on: `connection.session`.
    func afterSession() throws(HTTPError) -> (connection: UInt64, session: UInt64) {
        guard let word = values["after"] else { return (0, 0) }
        let numbers = word.split(separator: ".", omittingEmptySubsequences: false).map { UInt64($0) }
        guard numbers.count == 2, let connection = numbers[0], let session = numbers[1] else {
            throw .badRequest("after has to be a connection and a session")
        }
        return (connection, session)
    }

    /// The text without percent-encoding; nil if it is malformed or does not give UTF-8.
    private static func decoded(_ text: Substring) -> String? {
        text.replacing("+", with: " ").removingPercentEncoding
    }
}

extension VirtualPath {
    /// A path as listings show it.
    init(ofRequest word: String) throws(HTTPError) {
        guard let path = VirtualPath(description: word) else {
            throw .badRequest("path has to be as listings show it: % followed by two hexadecimal digits")
        }
        self = path
    }
}
