import NIOHTTP1

extension EndpointRequest {
    /// The credentials of a request about the data of an app: its bearer token, empty if there is none.
    package func credentials(for app: String) -> Credentials {
        let words = headers.first(name: "Authorization")?.split(separator: " ") ?? []
        return Credentials(
            app: app, token: words.count == 2 && words[0].lowercased() == "bearer" ? String(words[1]) : "",
            address: address, isOfWebPage: headers.contains(name: "Origin"))
    }
}
