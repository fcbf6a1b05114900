import AnabranchCore
import AnabranchHistory
import AnabranchServer
import Foundation
import Synchronization

/// Takes notes over HTTP, from programs that do not sync: a `POST /notes` whose body is the text.
final class NotesInbox: HTTPEndpoints {
    private let server = Mutex<SyncServer?>(nil)

    /// The server is made with its routes, so they get to know it afterwards.
    func attach(to server: SyncServer) { self.server.withLock { $0 = server } }

    func respond(to request: EndpointRequest) async -> EndpointResponse {
        guard let server = server.withLock({ $0 }), request.method == .POST, case .whole(let text) = request.body else {
            return EndpointResponse(status: .methodNotAllowed, contentType: "text/plain", text: "POST a text")
        }
        guard request.headers["Authorization"].first == "Bearer token-of-ann" else {
            return EndpointResponse(status: .unauthorized, contentType: "text/plain", text: "who are you?")
        }
        do {
            let id = UUID()
            try await server.write(to: WordCounter.team) { tx in
                try tx.create("Note", key: PrimaryKey(id))["text"] = String(decoding: text, as: UTF8.self)
            }
            return EndpointResponse(status: .created, contentType: "text/plain", text: "\(id)")
        } catch {
            return EndpointResponse(status: .serviceUnavailable, contentType: "text/plain", text: "\(error)")
        }
    }
}
