extension AppServices {
    /// Decides about the access token of an HTTP request, as about that of a connection.
    /// - Parameter address: that of the client.
    package func admit(accessToken: String, app: String, from address: String?) async -> Admission {
        await admit(Credentials(app: app, token: accessToken, address: address))
    }
}
