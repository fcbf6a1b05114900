import NIOHTTP1

/// Endpoints and the paths that are theirs: `/ota` has `/ota`, and all that begins with `/ota/`. Where several routes
/// fit, the one with the longest prefix answers; a path of none is answered with status 404.
public struct HTTPRoute: Sendable {
    /// The form in which a route takes the bodies of requests. Longer ones are refused with status 413, before anything
    /// of them is read if the client says how long they are.
    public enum BodyForm: Sendable {
        /// Collected before the endpoints are asked. More than 64 KiB wait until there is memory for them
        /// (`ServerSettings.bodyMemoryBytesMax`), and have to come with 16 KiB a second on average.
        case whole(bytesMax: Int)
        /// Passed on as it comes, with at most 16 parts of it in memory, of 4 KiB or one record of TLS. It ends with an
        /// error if less than 4 KiB come within `ServerSettings.handshakeSecondsMax` although the endpoints wait.
        case stream(bytesMax: Int)

        var bytesMax: Int {
            switch self {
            case .whole(let bytesMax), .stream(let bytesMax): bytesMax
            }
        }
    }

    /// The beginning of the paths, without a slash at its end.
    let prefix: String
    let endpoints: any HTTPEndpoints
    /// Nil for that of the server's settings.
    let body: BodyForm?

    /// - Parameters:
    ///   - prefix: begins with a slash and ends with none; `/` alone for all paths. It is compared with paths as they
    ///     come, without decoding them.
    ///   - body: nil for a body of up to `ServerSettings.bodyBytesMax` bytes that is collected.
    /// - Precondition: the prefix is of this form.
    public init(_ prefix: String = "/", to endpoints: any HTTPEndpoints, body: BodyForm? = nil) {
        precondition(
            prefix == "/" || prefix.hasPrefix("/") && !prefix.hasSuffix("/"),
            "the prefix of a route begins with a slash and ends with none: \(prefix)")
        self.prefix = prefix == "/" ? "" : prefix
        self.endpoints = endpoints
        self.body = body
    }

    fileprivate func has(_ path: Substring.UTF8View) -> Bool {
        guard path.starts(with: prefix.utf8) else { return false }
        let rest = path.dropFirst(prefix.utf8.count)
        return prefix.isEmpty || rest.isEmpty || rest.first == UInt8(ascii: "/")
    }
}

/// The routes of a server.
struct HTTPRoutes: Sendable {
    /// The longest prefix first.
    private let routes: [HTTPRoute]
    private static let nowhere = HTTPRoute(to: NoEndpoints())

    /// - Precondition: no two have the same prefix.
    init(_ routes: [HTTPRoute]) {
        precondition(Set(routes.map(\.prefix)).count == routes.count, "two routes have the same prefix")
        self.routes = routes.sorted { $0.prefix.utf8.count > $1.prefix.utf8.count }
    }

    func route(of head: HTTPRequestHead) -> HTTPRoute {
        let path = head.uri.utf8.prefix { $0 != UInt8(ascii: "?") }
        return routes.first { $0.has(path) } ?? Self.nowhere
    }
}
