import AnabranchCore
package import AnabranchServer
import NIOHTTP1

/// The page that plays simulated worlds, alone: without a server to look into, and without a log-in, since there is
/// nothing to keep from anybody (`Spec/Inspector.md`, section 8). For a loopback address.
package struct WorldPages: HTTPEndpoints {
    private let assets = Assets()
    private let version: String
    private let record: @Sendable (UInt64, [String]) async throws -> [UInt8]

    /// - Parameter record: makes the recording of a seed, with only these faults, or with those that the seed picks if
    ///   none is named. Its error is shown to people.
    package init(version: String, record: @escaping @Sendable (UInt64, [String]) async throws -> [UInt8]) {
        self.version = version
        self.record = record
    }

    package func respond(to request: EndpointRequest) async -> EndpointResponse {
        var response: EndpointResponse
        do throws(PageError) { response = try await answer(request) } catch { response = error.response }
        response.headers.add(contentsOf: Inspector.headers)
        if !response.headers.contains(name: "Cache-Control") {
            response.headers.add(name: "Cache-Control", value: "no-store")
        }
        return response
    }

    private func answer(_ request: EndpointRequest) async throws(PageError) -> EndpointResponse {
        guard request.method == .GET || request.method == .HEAD else {
            throw PageError(.methodNotAllowed, "MethodNotAllowed", "only GET is answered")
        }
        // No other page may have worlds made, nor under a name that leads here.
        guard Origins.isOwn(request.headers), Origins.isOfThisMachine(request.headers) else {
            throw PageError(.forbidden, "Origin", "only the page itself may ask for this")
        }
        if let asset = assets.response(to: request) { return asset }
        switch request.path {
        case "/", "/world": return assets.page
        case "/session.json":
            let session: JSONValue = ["logged_in": true, "plays": true, "writes": false, "version": .string(version)]
            return EndpointResponse(status: .ok, text: session.encoded)
        case "/world.jsonl": return try await world(try PageQuery(request.query))
        default: throw .noSuch("page")
        }
    }

    private func world(_ query: PageQuery) async throws(PageError) -> EndpointResponse {
        let seed = try query.number("seed", 0...UInt64.max)
        let faults = (query["faults"] ?? "").split(separator: ",").map(String.init)
        let bytes: [UInt8]
        do { bytes = try await record(seed, faults) } catch { throw .badRequest("\(error)") }
        return EndpointResponse(status: .ok, headers: ["Content-Type": "application/jsonl"], body: .whole(bytes))
    }
}

extension Origins {
    /// True if a request names this machine itself.
    static func isOfThisMachine(_ headers: HTTPHeaders) -> Bool {
        let host = headers.first(name: "host") ?? ""
        let name = host.hasPrefix("[") ? host.prefix { $0 != "]" } + "]" : host.prefix { $0 != ":" }
        return ["127.0.0.1", "localhost", "[::1]"].contains(name)
    }
}
