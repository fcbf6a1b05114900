import NIOHTTP1

@testable import AnabranchServer

/// Endpoints that answer what a closure says.
struct AnsweringEndpoints: HTTPEndpoints {
    let answer: @Sendable (EndpointRequest) async -> EndpointResponse

    func respond(to request: EndpointRequest) async -> EndpointResponse { await answer(request) }
}

extension EndpointResponse {
    static func text(_ text: String) -> EndpointResponse {
        EndpointResponse(status: .ok, contentType: "text/plain", text: text)
    }
}
