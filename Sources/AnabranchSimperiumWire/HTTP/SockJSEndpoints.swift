import AnabranchCore
package import AnabranchServer
import NIOHTTP1

/// The HTTP requests of SockJS (`Spec/Simperium.md`, section 13). For a route with the prefix `/sock`.
///
/// A client asks for `info` and then tries one transport after the other. WebSockets are served; all others are 404.
package struct SockJSEndpoints: HTTPEndpoints {
    private let settings: SimperiumSettings

    package init(_ wire: SimperiumWire) { settings = wire.limits }

    package func respond(to request: EndpointRequest) async -> EndpointResponse {
        let parts = request.path.split(separator: "/")
        guard parts.count == 3 || parts.count == 4 && parts[3] == "info", parts[0...1] == ["sock", "1"],
            settings.app(String(parts[2])) != nil
        else { return DataRefusal(.notFound, "not found").response }
        var response: EndpointResponse
        switch (request.method, parts.count) {
        case (.GET, 3):
            return EndpointResponse(
                status: .ok, contentType: "text/plain; charset=UTF-8", text: "Welcome to SockJS!\n")
        case (.GET, _):
            let info: JSONValue = [
                "websocket": true, "origins": ["*:*"], "cookie_needed": false,
                "entropy": .integer(Int64(UInt32.random(in: .min ... .max))),
            ]
            response = EndpointResponse(status: .ok, contentType: "application/json; charset=UTF-8", text: info.encoded)
            response.headers.add(name: "Cache-Control", value: "no-store")
        case (.OPTIONS, 4):
            response = EndpointResponse(status: .noContent)
            response.headers.add(name: "Access-Control-Allow-Methods", value: "OPTIONS, GET")
            response.headers.add(name: "Access-Control-Max-Age", value: "86400")
        default: return DataRefusal(.methodNotAllowed, "the method is not allowed here").response
        }
        // Tokens are in messages, so any page may connect.
        let origin = request.headers.first(name: "Origin")
        response.headers.add(name: "Access-Control-Allow-Origin", value: origin ?? "*")
        if origin != nil { response.headers.add(name: "Access-Control-Allow-Credentials", value: "true") }
        response.headers.add(name: "Vary", value: "Origin")
        return response
    }
}
