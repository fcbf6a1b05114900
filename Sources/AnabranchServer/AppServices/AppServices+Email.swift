import AnabranchCore
import AnabranchHistory
import Logging
import Metrics
import NIOHTTP1

/// E-mails that confirm an address or let a user choose a new password (`Spec/Protocol.md`, section 1.6).
extension AppServices {
    func email(
        _ action: Route.EmailAction, _ body: [String: JSONValue], in app: String, from address: String?
    ) async throws(HTTPError) {
        try require(.emailPassword, in: app)
        switch action {
        case .sendConfirmation: try send(.confirmation, to: try Self.email(in: body, "email"), in: app)
        case .sendReset: try send(.reset, to: try Self.email(in: body, "email"), in: app)
        case .confirm:
            let (user, identity) = try await holder(ofTokenIn: body, .confirmation, in: app)
            let isNew = try await store { accounts throws(AccountError) in
                try accounts.confirm(identity.ident, of: user.ident)
            }
            guard isNew else {
                throw HTTPError(status: .badRequest, code: "UserAlreadyConfirmed", message: "already confirmed")
            }
            logger.info("address confirmed", metadata: ["app": "\(app)", "user": "\(user.ident)"])
        case .reset:
            let password = try Self.newPassword(in: body)
            let (user, identity) = try await holder(ofTokenIn: body, .reset, in: app)
            let attempt = Self.attempt(identity.name, in: app, from: address)
            let secret = try await hashing(attempt) { passwords in try passwords.hash(password) }
            // The token is good only for the password that it was made for, even if another request resets it at the
            // same time.
            let isFirst = try await store { accounts throws(AccountError) in
                try accounts.setSecret(secret, of: identity.ident, user: user.ident, replacing: identity.secret)
            }
            guard isFirst else { throw refusal(ofTokenFor: app, because: "used by somebody else meanwhile") }
            logger.info("password reset", metadata: ["app": "\(app)", "user": "\(user.ident)"])
        case .callConfirmation, .callReset:
            throw HTTPError(
                status: .notFound, code: "FunctionNotFound",
                message: "this server runs no functions of an app: ask for an e-mail instead")
        }
    }

    /// True if a new user has to confirm the address before the first login.
    func confirmsAddresses(in app: String) -> Bool { allowed(in: app)?.emails.contains(.confirmation) == true }

    private func holder(
        ofTokenIn body: [String: JSONValue], _ kind: AccountEmail.Kind, in app: String
    ) async throws(HTTPError) -> (User, Identity) {
        let token = try body.text("token", bytesMax: Self.emailTokenBytesMax), ident = try body.text("tokenId")
        let user = try await store { accounts throws(AccountError) in try accounts.user(ident) }
        guard let user, user.app.hasBytes(of: app), !user.isDisabled else {
            throw refusal(ofTokenFor: app, because: "of nobody")
        }
        let reason: String
        do {
            return (user, try await emailTokens.identity(of: token, kind, user, now: now))
        } catch {
            reason = "\(error)"
        }
        throw refusal(ofTokenFor: app, because: reason)
    }

    private func refusal(ofTokenFor app: String, because reason: String) -> HTTPError {
        logger.info("token of an e-mail refused", metadata: ["app": "\(app)", "reason": "\(reason)"])
        return HTTPError(
            status: .badRequest, code: "UserpassTokenInvalid", message: "the token is wrong, used or expired")
    }

    // MARK: Sending

    /// Sends an e-mail if there is reason to. The answer does not tell: it is the same, and as quick, either way.
    private func send(_ kind: AccountEmail.Kind, to address: String, in app: String) throws(HTTPError) {
        guard start(kind, to: address, in: app, by: try hook(for: kind, in: app)) else {
            throw HTTPError(
                status: .tooManyRequests, code: "TooManyRequests", message: "too many e-mails; wait an hour")
        }
    }

    func hook(for kind: AccountEmail.Kind, in app: String) throws(HTTPError) -> any EmailHook {
        if let hook = emails[exactly: app], allowed(in: app)?.emails.contains(kind) == true { return hook }
        throw HTTPError(
            status: .badRequest, code: "EmailNotConfigured",
            message: kind == .reset
                ? "this app sends no e-mails to reset a password" : "this app sends no e-mails to confirm addresses")
    }

    /// - Returns: false if the address has had too many, or too many are being sent.
    @discardableResult
    func start(_ kind: AccountEmail.Kind, to address: String, in app: String, by hook: any EmailHook) -> Bool {
        guard emailRate.count("\(app)/\(address.lowercased())", now: now) <= settings.emailsPerHourMax,
            emailsUnderWay.acquire()
        else {
            count(email: "limited")
            return false
        }
        Task {
            await deliver(kind, to: address, in: app, by: hook)
            emailsUnderWay.release()
        }
        return true
    }

    private func deliver(
        _ kind: AccountEmail.Kind, to address: String, in app: String, by hook: any EmailHook
    ) async {
        var metadata: Logger.Metadata = ["app": "\(app)", "kind": "\(kind)"]
        var token = ""
        do {
            guard let user = try await userWithEmail(address, in: app),
                let identity = user.identity(withEmail: address),
                !user.isDisabled, kind == .reset || identity.isPending
            else { return }
            metadata["user"] = "\(user.ident)"
            // The address as it was registered: the request for the e-mail may spell it in other letters.
            let registered = identity.name
            guard AccountEmail.canReach(registered) else { throw TokenError("no e-mail can reach the address") }
            let seconds = kind == .reset ? settings.resetTokenSeconds : settings.confirmationTokenSeconds
            token = try await emailTokens.issue(kind, user, identity, now: now, seconds: seconds)
            try await hook.send(
                AccountEmail(kind: kind, app: app, address: registered, token: token, tokenIdent: user.ident))
            count(email: "sent")
            logger.info("e-mail sent", metadata: metadata)
        } catch {
            // A mail server may quote the text that it was sent when it complains.
            let reason = token.isEmpty ? "\(error)" : "\(error)".replacing(token, with: "…")
            metadata["reason"] = "\(reason)"
            count(email: "failed")
            logger.notice("e-mail not sent", metadata: metadata)
        }
    }

    func count(email outcome: String, by number: Int = 1) {
        Counter(label: "anabranch_emails_total", dimensions: [("outcome", outcome)], factory: metrics)
            .increment(by: number)
    }
}

extension User {
    /// The ways to log in with an e-mail address and a password: several, if users were linked.
    var emailIdentities: [Identity] { identities.filter { $0.provider == Provider.emailPassword.rawValue } }

    /// The identity with this address, ignoring the case of letters (`AccountStore`).
    func identity(withEmail address: String) -> Identity? {
        let same = emailIdentities.filter { $0.name.caseless == address.caseless }
        return same.first { $0.name.utf8.elementsEqual(address.utf8) } ?? same.first
    }
}

extension String {
    /// The bytes, with A to Z in lower case.
    fileprivate var caseless: [UInt8] { utf8.map { (0x41...0x5a).contains($0) ? $0 | 0x20 : $0 } }
}
