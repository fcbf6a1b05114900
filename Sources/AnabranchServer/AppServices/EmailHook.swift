/// Sends e-mails for a server. Without it an account needs no confirmation, and a password cannot be reset.
public protocol EmailHook: Sendable {
    /// Handles a request to confirm an e-mail address or to reset a password. The hook makes its own tokens, sends
    /// them, and recognises them again.
    func handle(_ request: EmailRequest, app: String) async -> EmailOutcome
}

/// What a client asks for (`Spec/Protocol.md`, section 1.6).
public enum EmailRequest: Equatable, Sendable {
    /// Send another e-mail with a token that confirms the address.
    case sendConfirmation(email: String)
    /// Run the app's own function that confirms the address.
    case callConfirmation(email: String)
    /// Confirm the address that the token was sent to.
    case confirm(token: String, tokenIdent: String)
    /// Send an e-mail with a token that lets the user choose a new password.
    case sendReset(email: String)
    /// Set the password of the user whom the token was sent to.
    case reset(password: String, token: String, tokenIdent: String)
    /// Run the app's own function that resets a password. `arguments` is the JSON array that the application passed.
    case callReset(email: String, password: String, arguments: String)
}

/// What came of a request for an e-mail.
public enum EmailOutcome: Equatable, Sendable {
    /// There is nothing more to do.
    case done
    /// The user with this address gets the password, and all sessions of the user end.
    case setPassword(email: String, password: String)
    /// The request is refused; the application is shown the text.
    case refused(String)
}
