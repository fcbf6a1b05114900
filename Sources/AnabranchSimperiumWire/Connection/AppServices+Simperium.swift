package import AnabranchServer

extension AppServices: SimperiumAuthenticator {
    package func admit(token: String, app: String) async -> Admission { await admit(plainToken: token, app: app) }
}
