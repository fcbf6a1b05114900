import AnabranchCore

/// Logging in and out, and e-mail addresses (`Spec/Protocol.md`, sections 1.2, 1.3 and 1.6).
extension AppClient {
    /// Logs a user in, who becomes the current one. While a user is logged in anonymously, an anonymous log-in returns
    /// the same user again.
    @discardableResult
    public func logIn(_ credentials: AppCredentials) async throws -> AppUser {
        if credentials == .anonymous, let known = users.first(where: { $0.isLoggedIn && $0.isAnonymous }) {
            try switchUser(to: known.id)
            return known
        }
        let answer = try await request("POST", loginPath(credentials), body: body(of: credentials))
        let access = try Self.token("access_token", of: answer), refresh = try Self.token("refresh_token", of: answer)
        guard let id = answer["user_id"]?.string, let device = answer["device_id"]?.string else {
            throw AppError(.badAnswer, "the answer to the log-in has no user_id or no device_id")
        }
        var user = StoredUsers.StoredUser(
            id: id, provider: credentials.provider, deviceID: device, accessToken: access.text,
            refreshToken: refresh.text, customData: access.customData)
        try user.takeProfile(try await request("GET", "/auth/profile", token: access.text))
        try change { stored in
            stored.put(user)
            stored.current = id
        }
        return user.user
    }

    /// Gives a user one more way to log in. An e-mail address has to be registered before.
    @discardableResult
    public func link(_ credentials: AppCredentials, to id: String) async throws -> AppUser {
        let answer = try await request(
            "POST", loginPath(credentials) + "?link=true", of: id, body: body(of: credentials))
        let access = try Self.token("access_token", of: answer)
        try changeUser(id) { user in
            user.accessToken = access.text
            user.customData = access.customData
        }
        return try await refreshProfile(of: id)
    }

    /// Asks the server for the user's profile and ways to log in.
    @discardableResult
    public func refreshProfile(of id: String) async throws -> AppUser {
        let profile = try await request("GET", "/auth/profile", of: id)
        return try changeUser(id) { user in try user.takeProfile(profile) }
    }

    /// Logs a user out on this device immediately, even if the server cannot be reached: then the error says so, and
    /// the session on the server expires by itself.
    public func logOut(_ id: String) async throws {
        guard let user = user(id), user.isLoggedIn else { return }
        let token = try refreshToken(of: id)
        try change { $0.logOut(id) }
        try await endSession(token)
    }

    /// Logs a user out and forgets it.
    public func removeUser(_ id: String) async throws {
        let token = try? refreshToken(of: id)
        try change { $0.remove(id) }
        if let token { try await endSession(token) }
    }

    private func endSession(_ refreshToken: String) async throws {
        do {
            _ = try await request("DELETE", "/auth/session", token: refreshToken)
        } catch let error as AppError where error.status == 401 {
            // It had ended already.
        }
    }

    /// Has the server delete the user, and forgets it. The user's synchronized data stays.
    public func deleteUser(_ id: String) async throws {
        _ = try await request("DELETE", "/auth/delete", of: id)
        try change { $0.remove(id) }
    }

    private func loginPath(_ credentials: AppCredentials) throws(AppError) -> String {
        guard credentials.provider.contains(/^[A-Za-z0-9-]+$/) else {
            throw AppError(.providerNotFound, "no provider: '\(credentials.provider)'")
        }
        return "/app/\(appID)/auth/providers/\(credentials.provider)/login"
    }

    private func body(of credentials: AppCredentials) -> JSONValue {
        .object(credentials.fields.merging(["options": loginOptions]) { own, _ in own })
    }

    /// Changes the stored data of a user that is logged in.
    @discardableResult
    private func changeUser(_ id: String, _ body: (inout StoredUsers.StoredUser) throws -> Void) throws -> AppUser {
        _ = try refreshToken(of: id)
        try change { stored in
            if let index = stored.index(of: id) { try body(&stored.users[index]) }
        }
        guard let user = user(id) else { throw AppError(.noSuchUser, "there is no user \(id) here") }
        return user
    }

    // MARK: E-mail addresses

    /// Registers an address. If the app requires confirmation, it sends an e-mail, and nobody can log in before the
    /// address is confirmed.
    public func register(email: String, password: String) async throws {
        try await post("/register", ["email": .string(email), "password": .string(password)])
    }

    /// Confirms an address, with the token and its id from the e-mail.
    public func confirm(token: String, tokenID: String) async throws {
        try await post("/confirm", ["token": .string(token), "tokenId": .string(tokenID)])
    }

    /// Has the e-mail by which an address is confirmed sent again. The answer does not reveal whether the address is
    /// registered.
    public func sendConfirmation(to email: String) async throws {
        try await post("/confirm/send", ["email": .string(email)])
    }

    /// Has an e-mail sent by which a new password can be chosen. The answer does not reveal whether the address is
    /// registered.
    public func sendPasswordReset(to email: String) async throws {
        try await post("/reset/send", ["email": .string(email)])
    }

    /// Sets a new password, with the token and its id from the e-mail. All log-ins of the user end.
    public func resetPassword(to password: String, token: String, tokenID: String) async throws {
        try await post(
            "/reset", ["password": .string(password), "token": .string(token), "tokenId": .string(tokenID)])
    }

    private func post(_ action: String, _ body: JSONValue) async throws {
        _ = try await request("POST", "/app/\(appID)/auth/providers/local-userpass\(action)", body: body)
    }
}

extension StoredUsers.StoredUser {
    /// - Throws: `AppError` if the answer is not a profile.
    fileprivate mutating func takeProfile(_ answer: JSONValue) throws(AppError) {
        guard let data = answer["data"], data.object != nil, let list = answer["identities"]?.array else {
            throw AppError(.badAnswer, "the profile has no data or no identities")
        }
        identities = []
        for identity in list {
            guard let id = identity["id"]?.string, let provider = identity["provider_type"]?.string else {
                throw AppError(.badAnswer, "an identity of the profile has no id or no provider_type")
            }
            identities.append(StoredUsers.StoredIdentity(id: id, provider: provider))
        }
        profile = data.encoded
    }
}
