import AnabranchServer

/// How an app sends e-mails (`Spec/Admin.md`, section 8).
struct EmailSettings: Equatable {
    enum Way: Equatable {
        case smtp(SMTPServer)
        /// A program and its arguments, started for each e-mail.
        case command([String])
    }

    struct Template: Equatable {
        /// The page of the app that the token is appended to.
        var url = ""
        var subject: String
        var text: String

        /// The mark for the URL in a text, which shows the reader what to open.
        static let urlMark = "{url}"
        static let appMark = "{app}"

        init(_ kind: AccountEmail.Kind) {
            switch kind {
            case .confirmation:
                subject = "Confirm your e-mail address"
                text = """
                    Somebody has registered this e-mail address with {app}. If it was you, open this page to confirm \
                    it, within a day:

                    {url}

                    If it was not you, there is nothing to do.
                    """
            case .reset:
                subject = "Choose a new password"
                text = """
                    Somebody has asked for a new password for your account of {app}. If it was you, open this page to \
                    choose one, within half an hour:

                    {url}

                    If it was not you, there is nothing to do: your password is what it was.
                    """
            }
        }

        func url(_ email: AccountEmail) -> String {
            url + (url.contains("?") ? "&" : "?") + "token=\(email.token)&tokenId=\(email.tokenIdent)"
        }

        func filled(_ text: String, _ email: AccountEmail) -> String {
            text.replacing(Self.appMark, with: email.app).replacing(Self.urlMark, with: url(email))
        }
    }

    var way: Way
    /// The e-mails that the app sends.
    var templates: [AccountEmail.Kind: Template] = [:]

    /// The names of the kinds in the configuration.
    static func name(of kind: AccountEmail.Kind) -> String { kind == .confirmation ? "confirm" : "reset" }
}

/// A mail server.
struct SMTPServer: Equatable {
    var host: String
    var port: Int
    /// True if TLS begins before the first command, and not with STARTTLS.
    var beginsWithTLS: Bool
    var sender: EmailAddress
    /// Nil for no log-in.
    var user: String?
    /// Nil if the password is the setting `smtp-password`.
    var passwordFile: String?
    /// A PEM file with the certificates that vouch for the server's; nil stands for those of the system.
    var authority: String?

    /// True if the server is on this machine, where nothing has to be encrypted.
    var isLoopback: Bool { ListenAddress(host: host, port: port).isLoopback }
}

/// An address with the name that people see.
struct EmailAddress: Equatable, CustomStringConvertible {
    let name: String
    let address: String

    /// - Parameter text: such as `App <noreply@example.com>`, or the address alone.
    init?(_ text: String) {
        guard let match = text.wholeMatch(of: /(?:([^<>\p{C}]*?) *<([^<>]+)>|([^<>]+))/) else { return nil }
        name = String(match.output.1 ?? "")
        address = String(match.output.2 ?? match.output.3 ?? "")
        guard address.wholeMatch(of: /[A-Za-z0-9.!#$%&'*+\/=?^_`{|}~-]+@[A-Za-z0-9.-]+/) != nil else { return nil }
    }

    var description: String { name.isEmpty ? address : "\(name) <\(address)>" }
}
