import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchServer
import NIOHTTP1

/// Actions of an operator from a page: the admin interface does them, if the configuration allows that.
extension Inspector {
    private static let actions: [String: String] = [
        "/expire": "POST /v1/clients/expire", "/disconnect": "POST /v1/sessions/disconnect",
        "/revoke": "POST /v1/users/revoke", "/disable": "POST /v1/users/disable", "/enable": "POST /v1/users/enable",
    ]

    func act(_ request: EndpointRequest, _ onlooker: Onlooker) async throws(PageError) -> EndpointResponse {
        let isTrial = request.path == "/expire" ? try request.object()["dry_run"] == true : false
        guard mode == .readWrite || isTrial else {
            throw PageError(
                .forbidden, "ReadOnly",
                "this inspector only looks: inspector: read-write in the configuration lets it act")
        }
        if request.path == "/restore" { return try await restore(request, onlooker) }
        guard let endpoint = Self.actions[request.path] else { throw .noSuch("page") }
        guard case .whole(let body) = request.body else { throw .unavailable }
        return try await forward(endpoint, body: body, by: onlooker, address: request.address)
    }

    /// Writes a value again that a merge has discarded (`Spec/Explain.md`, section 5).
    private func restore(
        _ request: EndpointRequest, _ onlooker: Onlooker
    ) async throws(PageError) -> EndpointResponse {
        let body = try request.object()
        guard let word = body["path"]?.string, let path = VirtualPath(description: word),
            let version = body["version"]?.integer, let number = body["number"]?.integer
        else { throw .badRequest("path, version and number say which value is meant") }
        let (name, line) = try await reads.read(path, isLong: true) { view in
            let found = try view.view.explanation(of: ServerVersion(rawValue: UInt64(clamping: version))).lostValues
            guard let value = found.indices.contains(Int(clamping: number)) ? found[Int(clamping: number)] : nil else {
                throw PageError.noSuch("lost value")
            }
            var state = view.state
            do { _ = try state.write(as: .server) { try $0.restore(value) } } catch {
                throw PageError(.conflict, "NotRestored", "the value cannot be written again: \(error)")
            }
            return (view.path, value.line)
        }
        return try await forward(
            "POST /v1/import", "path=\(name.queryText)&strict=true", body: Array(line.utf8), by: onlooker,
            address: request.address)
    }
}

extension LostValue {
    /// The line of an import that writes it (`Spec/Export.md`, section 1).
    fileprivate var line: String {
        "[\(jsonText(object.className)),\(object.key.json),{\(jsonText(field)):\(value.json)}]\n"
    }
}
