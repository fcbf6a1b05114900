/// Sends the e-mails of an app. The server makes the tokens that are in them, and recognises them again.
public protocol EmailHook: Sendable {
    /// Sends one e-mail. Nobody waits for it: what is thrown is a line in the log.
    func send(_ email: AccountEmail) async throws
}

/// What somebody is to be sent about an account (`Spec/Admin.md`, section 8).
public struct AccountEmail: Sendable {
    /// What an e-mail is for.
    public enum Kind: String, CaseIterable, Sendable {
        /// To show that the address is that of whoever registered it.
        case confirmation
        /// To choose a new password.
        case reset
    }

    /// What it is for.
    public let kind: Kind
    /// The app's id.
    public let app: String
    /// The receiver: visible ASCII without what could end an address, so it can stand in a header as it is.
    public let address: String
    /// What the application hands back to the server: letters, digits, `-`, `_` and `.`.
    public let token: String
    /// What it hands back with it.
    public let tokenIdent: String

    /// - Returns: whether an e-mail can be sent to the address as it stands.
    static func canReach(_ address: String) -> Bool {
        address.wholeMatch(of: /[A-Za-z0-9.!#$%&'*+\/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}/) != nil
    }
}
