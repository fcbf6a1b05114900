/// Sends the e-mails of an app. The server makes the tokens in them, and recognises them again.
public protocol EmailHook: Sendable {
    /// Sends one e-mail. Nobody waits for it: an error becomes a line in the log.
    func send(_ email: AccountEmail) async throws
}

/// An e-mail about an account (`Spec/Admin.md`, section 8).
public struct AccountEmail: Sendable {
    /// The purpose of an e-mail.
    public enum Kind: String, CaseIterable, Sendable {
        /// It confirms that the address belongs to the person who registered it.
        case confirmation
        /// It lets the user choose a new password.
        case reset
    }

    /// The purpose of the e-mail.
    public let kind: Kind
    /// The app's id.
    public let app: String
    /// The address of the receiver: visible ASCII without anything that could end an address, so it can stand in a
    /// header as it is.
    public let address: String
    /// The token that the application hands back to the server: letters, digits, `-`, `_` and `.`.
    public let token: String
    /// The ident that the application hands back with the token.
    public let tokenIdent: String

    /// - Returns: whether an e-mail can be sent to the address as it stands.
    static func canReach(_ address: String) -> Bool {
        address.wholeMatch(of: /[A-Za-z0-9.!#$%&'*+\/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}/) != nil
    }
}
