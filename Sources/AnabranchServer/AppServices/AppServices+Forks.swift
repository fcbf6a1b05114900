import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// Clients of forks, which bring a token of the app's own issuer (`Spec/Forks.md`, section 3).
extension AppServices {
    /// - Returns: the decision, and the user or the address that a refusal counts against.
    func decideByIssuer(_ credentials: Credentials) async -> (Admission, String) {
        let address = credentials.address ?? ""
        guard !credentials.isOfWebPage || !settings.takesAnyToken else {
            return (.userRefused(reason: "asked for by a web page, where every token is taken"), address)
        }
        do {
            return try await admitByIssuer(credentials)
        } catch let error as TokenError where error == .noKeys {
            return (.unavailable, address)
        } catch let error as TokenError {
            let reason = "the token: \(error)"
            return (error == .expired ? .tokenRefused(reason: reason) : .userRefused(reason: reason), address)
        } catch {
            return (.unavailable, address)
        }
    }

    /// - Throws: `TokenError`, or what the store says.
    private func admitByIssuer(_ credentials: Credentials) async throws -> (Admission, String) {
        if settings.takesAnyToken { return try await admitAnyToken(credentials) }
        let now = now, apps = settings.apps.compactMapValues { $0.forks[credentials.dialect] }
        let token = try JSONWebToken(
            issued: credentials.token, takesObjectServers: apps.values.contains(where: \.takesOldTokens))
        // Not verified yet, since the keys depend on the app.
        let named = try IssuedRights(token.unverified).app
        guard let app = named ?? (apps.count == 1 ? apps.first?.key : nil), let fork = apps[exactly: app],
            let issuer = issuers[exactly: app]
        else { throw TokenError(named == nil ? "no app named" : "for an app without this kind of client") }
        guard !token.isOfObjectServer || fork.takesOldTokens else { throw TokenError("an old token") }
        let claims = try await issuer.claims(of: token, needsAudience: issuer.namesAudience, now: now)
        let issued = try IssuedRights(claims)
        if let expiresAt = issued.expiresAt {
            guard now < expiresAt else { throw TokenError.expired }
        } else if fork.needsExpiry {
            throw TokenError("no expiry")
        }
        try claims.checkStart(IssuedRights.starts, now: now)
        let isFlexible = settings.apps[exactly: app]?.isFlexible ?? false
        return try await admit(issued, to: app, rights(issued, fork, isFlexible: isFlexible))
    }

    /// The rights of a client's token in an app that takes such tokens.
    private func rights(_ issued: IssuedRights, _ fork: ForkSettings, isFlexible: Bool) -> Principal.TokenRights {
        var rights = Principal.TokenRights()
        rights.permission = issued.permission
        rights.expiresAt = issued.expiresAt
        rights.isAdmin = issued.isAdmin && fork.knowsAdmins
        let file = fork.path.map { PartitionValue.withoutSlash(PartitionValue.canonical(plain: $0.utf8)) }
        if !isFlexible {
            rights.partition = issued.partition
        } else if issued.partition != nil ? issued.partition != file : fork.needsPath {
            // An app of flexible sync has one file, which only the token names.
            rights.permission = .none
        }
        return rights
    }

    /// For development: believes what the token says; if it says nothing, the client is the user without a token.
    private func admitAnyToken(_ credentials: Credentials) async throws -> (Admission, String) {
        let token = try? JSONWebToken(issued: credentials.token, takesObjectServers: true)
        let issued = token.flatMap { try? IssuedRights($0.unverified) }
        let apps = settings.apps.filter { $0.value.forks[credentials.dialect] != nil }.keys
        let app = issued?.app ?? (apps.count == 1 ? apps.first : nil) ?? credentials.dialect.name
        guard let issued, AppSettings.isAppID(app) else {
            let user = settings.userWithoutToken
            return (.admitted(Principal(app: credentials.dialect.name, user: user)), credentials.address ?? "")
        }
        var rights = Principal.TokenRights()
        (rights.permission, rights.partition, rights.isAdmin) = (issued.permission, issued.partition, issued.isAdmin)
        return try await admit(issued, to: app, rights)
    }

    private func admit(
        _ issued: IssuedRights, to app: String, _ rights: Principal.TokenRights
    ) async throws -> (Admission, String) {
        let user = try await findOrAdd(newUser(in: app, .customToken, name: issued.subject))
        guard !user.isDisabled else { return (.userRefused(reason: "the user is disabled"), user.ident) }
        var principal = Self.principal(
            of: user, by: Provider.customToken.rawValue, login: Self.loginByIssuer + user.ident)
        principal.rights = rights
        principal.subject = issued.subject
        if rights.isAdmin { principal.data = JSONValue.object(["admin": true]).encoded }
        return (.admitted(principal), user.ident)
    }

    /// The prefix of the `login` of connections that have no login session. They end when the user is disabled or
    /// deleted.
    static let loginByIssuer = "issuer/"
}

extension JSONWebToken {
    /// A token of an app's issuer.
    fileprivate init(issued text: String, takesObjectServers: Bool) throws(TokenError) {
        let isOld = takesObjectServers && text.utf8.contains(UInt8(ascii: ":"))
        self = isOld ? try JSONWebToken(ofObjectServer: text) : try JSONWebToken(text, takesBase64: true)
    }
}
