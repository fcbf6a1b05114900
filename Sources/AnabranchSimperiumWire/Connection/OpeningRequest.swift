import AnabranchCore

/// The kinds of clients that are treated differently (`Spec/Simperium.md`, section 8).
enum ClientLibrary: Equatable {
    /// `node-simperium`
    case node
    /// `simperium-ios`, also on macOS.
    case apple
    /// `simperium-js` in a browser.
    case browser
    case other

    /// By the members of `init`.
    init(_ members: [JSONName: JSONValue]) {
        switch members["library"]?.string {
        case "node-simperium": self = .node
        case "ios", "osx": self = .apple
        case nil where members["build"] != nil: self = .browser
        default: self = .other
        }
    }
}

/// The members of `init` (`Spec/Simperium.md`, section 8).
struct OpeningRequest {
    let bucket: String
    let token: String
    let app: String
    let client: String
    let library: ClientLibrary
    /// The library as the client names it, and its version.
    let libraryName: String?
    /// True if the client knows a login that has ended as the word `expired` only.
    let isOld: Bool
    let command: String?

    /// - Returns: nil if it is no such message, something is missing, or it is longer than what a client that has no
    /// channel may send.
    init?(_ payload: Substring) {
        guard payload.utf8.count <= SimperiumConnection.strangerBytesMax,
            let members = try? JSONValue(parsing: payload.utf8).members,
            let bucket = Self.text("name", in: members), let token = Self.text("token", in: members),
            let app = Self.text("app_id", in: members),
            let client = Self.text("clientid", in: members) ?? Self.text("client_id", in: members),
            client.utf8.count <= 256
        else { return nil }
        self.bucket = bucket
        self.token = token
        self.app = app
        self.client = client
        library = ClientLibrary(members)
        libraryName = members["library"]?.string.map { name in
            let version = members["version"].map { $0.string ?? $0.encoded } ?? ""
            return String("\(name) \(version)".prefix(100))
        }
        command = members["cmd"]?.string
        isOld =
            switch members["api"] {
            case .string(let text)?: (Double(text) ?? 0) < 1.1
            case .real(let number)?: number < 1.1
            case .integer(let number)?: number < 2
            default: true
            }
    }

    private static func text(_ name: String, in members: [JSONName: JSONValue]) -> String? {
        members[name]?.string.flatMap { $0.isEmpty ? nil : $0 }
    }
}
