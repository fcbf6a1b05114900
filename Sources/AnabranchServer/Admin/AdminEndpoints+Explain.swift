import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import NIOHTTP1

/// Explanations of what merges did (`Spec/Explain.md`, section 2).
extension AdminEndpoints {
    /// One version of a synced file, explained. It is read from the store, so that nobody who uses the file waits.
    func explain(_ query: ListingQuery) async throws(HTTPError) -> EndpointResponse {
        let path = try await known(try query.path()), version = try query.version()
        let (catalog, store) = (admin.catalog, server.files.environment.store)
        let json = try await blocking.run { () throws(HistoryError) -> String? in
            guard let id = try catalog.id(of: path) else { return nil }
            return try store.read(id) { view throws(HistoryError) in try view.explanation(of: version).json }
        } refusal: { error in
            guard let error = error as? HistoryError else { return nil }
            return switch error.code {
            case .badServerVersion: HTTPError(status: .notFound, code: "NoSuchVersion", message: error.reason)
            case .tooLarge: HTTPError(status: .conflict, code: "TooLarge", message: error.reason)
            default: nil
            }
        }
        guard let json else { throw Self.noSuch("partition: \(path.abbreviated)") }
        return EndpointResponse(status: .ok, text: json)
    }
}
