/// The route to an app's server for one of its users (`Spec/Protocol.md`, sections 1.2 and 1.5).
public struct AppRoute: RouteProvider {
    private let app: AppClient
    let user: String

    /// - Parameters:
    ///   - app: the app, which has the users and their tokens.
    ///   - user: the id of a user that is logged in.
    public init(_ app: AppClient, user: String) { (self.app, self.user) = (app, user) }

    var appID: String? { app.appID }

    /// The URL with the user's access token; a new one if the server does not accept the last one.
    /// - Throws: `SyncError` with the code `loggedOut`; other errors come from the network or the server.
    public func url(_ news: RouteNews) async throws -> String {
        do {
            switch news {
            case .none: break
            case .tokenIsBad: _ = try await app.refreshAccessToken(of: user)
            case .serverHasMoved: try await app.refreshLocation()
            }
            return try await app.syncURL(of: user)
        } catch let error as AppError where error.code == .loggedOut || error.code == .noSuchUser {
            throw SyncError(.loggedOut, error.reason)
        }
    }

    /// Logs the user out on this device as well, even if the server cannot be reached.
    public func userIsLoggedOut() async { try? await app.logOut(user) }
}
