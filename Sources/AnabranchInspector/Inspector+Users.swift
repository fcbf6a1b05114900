import AnabranchCore
import AnabranchHistory

extension Inspector {
    /// A user, and the files in which the user takes part.
    func user(_ query: PageQuery) async throws(PageError) -> String {
        let user = try query.text("user")
        let name = VirtualPath(user).queryTextOfBytes
        let files = try await json("GET /v1/files", "user=\(name)&limit=200")
        // A user can have files without an account: of another server, or without a log-in.
        let account = try? await json("GET /v1/user", "user=\(name)")
        return JSONValue.object([
            "user": .string(user), "account": account ?? .null, "files": files["files"] ?? .array([]),
        ]).encoded
    }
}

extension VirtualPath {
    /// The very bytes in the query of an address.
    fileprivate var queryTextOfBytes: String {
        bytes.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
