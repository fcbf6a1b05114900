package import AnabranchServer

extension AppServices: SimperiumAuthenticator {
    package func admit(token: String, app: String) async -> Admission { await admit(plainToken: token, app: app) }

    package func admit(user: String, app: String) async -> Admission { await admit(ident: user, app: app) }
}
