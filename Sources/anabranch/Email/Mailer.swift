import AnabranchCore
import AnabranchServer
import Foundation

/// Sends the e-mails of an app as its configuration says.
struct Mailer: EmailHook {
    let settings: EmailSettings
    /// The setting `smtp-password`.
    let password: String?
    /// The time that sending may take, in seconds.
    var secondsMax = 30

    func send(_ email: AccountEmail) async throws {
        guard let template = settings.templates[email.kind] else {
            throw EmailError("there is no setting '\(EmailSettings.name(of: email.kind))'")
        }
        switch settings.way {
        case .smtp(let server):
            let message = EmailMessage(
                sender: server.sender, address: email.address, subject: template.filled(template.subject, email),
                text: template.filled(template.text, email))
            let password = try server.passwordFile.map(Self.password(inFile:)) ?? password
            try await SMTPClient(server: server, password: password, secondsMax: secondsMax).send(message)
        case .command(let words):
            let body: JSONValue = [
                "kind": .string(EmailSettings.name(of: email.kind)), "app": .string(email.app),
                "email": .string(email.address), "token": .string(email.token), "tokenId": .string(email.tokenIdent),
                "url": .string(template.url(email)),
            ]
            try await EmailCommand(words: words, secondsMax: secondsMax).run(body.encoded + "\n")
        }
    }

    /// The first line of the file. It is read for each e-mail, so a new password needs no restart.
    static func password(inFile path: String) throws -> String {
        let line = try TextInput.text(ofFile: path).split(whereSeparator: \.isNewline).first
        guard let line else { throw EmailError("\(path): holds no password") }
        return String(line)
    }
}

/// The reason why an e-mail was not sent.
struct EmailError: Error, CustomStringConvertible {
    let description: String

    init(_ reason: String) { description = reason }
}
