import AnabranchCore
import AnabranchHistory
import Logging

/// The users of all apps: lists and changes them (`Spec/Admin.md`, sections 2 and 3).
extension AdminEndpoints {
    // MARK: Reading

    func users(_ query: ListingQuery) async throws(HTTPError) -> JSONValue {
        let email = try query.email()
        let users = try await accounts { accounts throws(AccountError) in
            if let email {
                return try accounts.user(of: email.app, provider: Provider.emailPassword.rawValue, name: email.name)
                    .map { [$0] } ?? []
            }
            guard let app = query.app else {
                return try accounts.users(after: query.afterWord, countMax: query.countMax)
            }
            return try accounts.users(of: app, after: query.afterWord, countMax: query.countMax)
        }
        // An app that the configuration no longer names can still have users, and the page after the last one none.
        if users.isEmpty, query.afterWord.isEmpty, let app = query.app, let apps = admin.settings.apps,
            !apps.contains(exactly: app)
        {
            throw NewUser.unknown(app, of: apps)
        }
        // At most one user has the address.
        guard email == nil else { return ["users": .array(users.map { .object(Self.members(of: $0)) })] }
        return page("users", users, query) {
            .object(Self.members(of: $0))
        } next: {
            $0.ident
        }
    }

    /// One user, by ident or by app and e-mail address, with custom data.
    func user(_ query: ListingQuery) async throws(HTTPError) -> JSONValue {
        let email = try query.email()
        guard email != nil || query.user != nil else { throw .badRequest("user, or app and email, are missing") }
        let user = try await accounts { accounts throws(AccountError) in
            guard let email else { return try accounts.user(query.user ?? "") }
            return try accounts.user(of: email.app, provider: Provider.emailPassword.rawValue, name: email.name)
        }
        guard let user else { throw Self.noSuch("user") }
        return Self.details(of: user)
    }

    private static func members(of user: User) -> [String: JSONValue] {
        [
            "user": .string(user.ident), "app": .string(user.app), "disabled": .bool(user.isDisabled),
            "created_at": JSONValue(user.createdAt),
            "identities": .array(
                user.identities.map {
                    [
                        "provider": .string($0.provider), "name": .string($0.name),
                        "confirmed": .bool(!$0.isPending),
                    ]
                }),
        ]
    }

    private static func details(of user: User) -> JSONValue {
        var members = members(of: user)
        // The stored text may be damaged.
        members["data"] = (try? JSONValue(parsing: user.customData.utf8)) ?? .null
        return .object(members)
    }

    // MARK: Adding

    func addUser(_ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let new = try NewUser(body, apps: admin.settings.apps)
        let secret = try await hash(new.password)
        let user = new.user(secret: secret, createdAt: server.unixSeconds())
        let keys = new.apiKeys(of: user)
        try await accounts { accounts throws(AccountError) in
            try accounts.add(user)
            do throws(AccountError) {
                for key in keys { try accounts.add(key, countMax: keys.count) }
            } catch {
                try accounts.removeUser(user.ident)
                throw error
            }
        }
        log("added", user.ident)
        guard let open = admin.settings.providers[exactly: user.app],
            case .object(var members) = Self.details(of: user)
        else { return Self.details(of: user) }
        let closed = Set((user.identities.map(\.provider))).subtracting(open)
        members["closed_providers"] = closed.isEmpty ? nil : .array(closed.sorted().map { .string($0) })
        return .object(members)
    }

    private func hash(_ password: String?) async throws(HTTPError) -> String? {
        guard let password else { return nil }
        return try await hashes.run { try PasswordHash().hash(password) }
    }

    // MARK: Changing

    func deleteUser(_ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let ident = try body.text("user")
        let isKnown = try await accounts { accounts throws(AccountError) in
            guard try accounts.user(ident) != nil else { return false }
            try accounts.removeUser(ident)
            return true
        }
        guard isKnown else { throw Self.noSuch("user") }
        log("deleted", ident)
        return await endLogins(of: ident)
    }

    /// Replaces the password, or gives a first one to a user with an e-mail address.
    func setPassword(_ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let ident = try body.text("user")
        let secret = try await hash(try AppServices.newPassword(in: body)) ?? ""
        let found = try await accounts { accounts throws(AccountError) -> (isKnown: Bool, hasEmail: Bool) in
            guard let user = try accounts.user(ident) else { return (false, false) }
            guard let identity = user.emailIdentities.first else { return (true, false) }
            try accounts.setSecret(secret, of: identity.ident, user: ident)
            return (true, true)
        }
        guard found.isKnown else { throw Self.noSuch("user") }
        guard found.hasEmail else { throw .badRequest("the user has no e-mail address to log in with") }
        log("set-password", ident)
        return await endLogins(of: ident)
    }

    /// Replaces the custom data. The user's clients connect again, because what they may do can depend on the data, and
    /// with new tokens, which carry the data to the app.
    func setData(_ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let ident = try body.text("user")
        let data = try NewUser.data(in: body)
        guard let data else { throw .badRequest("data is missing") }
        let isKnown = try await accounts { accounts throws(AccountError) in
            guard try accounts.user(ident) != nil else { return false }
            try accounts.setCustomData(data, user: ident)
            return true
        }
        guard isKnown else { throw Self.noSuch("user") }
        log("set-data", ident)
        let closed = await server.connections.ask { handler in
            guard handler.belongs(to: ident) else { return false }
            handler.renewToken()
            return true
        }
        return ["connections": .integer(Int64(closed.count { $0.answer }))]
    }

    func change(_ route: AdminRoute, _ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let user = try body.text("user")
        let isKnown = try await accounts { accounts throws(AccountError) -> Bool in
            guard try accounts.user(user) != nil else { return false }
            if route == .disable { try accounts.setDisabled(true, user: user) }
            if route == .enable {
                try accounts.setDisabled(false, user: user)
            } else {
                try accounts.removeSessions(of: user)
            }
            return true
        }
        guard isKnown else { throw Self.noSuch("user") }
        log("\(route)", user)
        return route == .enable ? [:] : await endLogins(of: user)
    }

    private func log(_ change: String, _ user: String) {
        logger.audit("user", "user changed by the operator", ["user": "\(user)", "change": "\(change)"])
    }

    /// Closes the connections of a user whose logins are over.
    private func endLogins(of user: String) async -> JSONValue {
        for door in server.doors { door.recheckLogins(of: user) }
        let ended = await server.connections.ask { handler in
            guard handler.belongs(to: user), handler.login != nil else { return false }
            handler.endLogin()
            return true
        }
        return ["connections": .integer(Int64(ended.count { $0.answer }))]
    }
}
