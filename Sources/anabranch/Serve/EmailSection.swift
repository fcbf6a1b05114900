import AnabranchCore
import AnabranchServer
import CommandSupport
import Yams

/// How an app sends e-mails, in its section of the configuration file:
///
///     email:
///       smtp: smtp://mail.example.com:587
///       user: my-app
///       password-file: smtp-password
///       sender: My App <noreply@example.com>
///       confirm: {url: https://app.example.com/confirm}
///       reset: {url: https://app.example.com/reset}
struct EmailSection {
    private static let keys = ["smtp", "user", "password-file", "sender", "ca", "command", "confirm", "reset"]
    private static let templateKeys = ["url", "subject", "text"]

    let place: String
    private(set) var problems: [String] = []

    init(place: String) { self.place = place }

    /// - Returns: nil if something is wrong.
    mutating func read(_ node: Node) -> EmailSettings? {
        var texts: [String: String] = [:], command: [String]?,
            templates: [AccountEmail.Kind: EmailSettings.Template] = [:]
        for (key, value) in node.mapping ?? [:] {
            let name = key.scalar?.string ?? ""
            if !Self.keys.contains(name) {
                problems.append("\(place): " + KnownWords.unknown("setting", name, of: Self.keys))
            } else if name == "command" {
                command = words(value)
            } else if let kind = AccountEmail.Kind.allCases.first(where: { EmailSettings.name(of: $0) == name }) {
                templates[kind] = template(value, kind, place: "\(place): \(name)")
            } else {
                texts[name] = text(value, place: "\(place): \(name)")
            }
        }
        if templates.isEmpty { problems.append("\(place): confirm and reset are missing: no e-mail would be sent") }
        let way: EmailSettings.Way?
        if let command {
            if let other = texts.keys.min() { problems.append("\(place): \(other): not with command") }
            way = .command(command)
        } else {
            way = server(texts).map { .smtp($0) }
        }
        guard problems.isEmpty, let way else { return nil }
        return EmailSettings(way: way, templates: templates)
    }

    private mutating func server(_ texts: [String: String]) -> SMTPServer? {
        guard let url = texts["smtp"] else {
            problems.append("\(place): smtp or command is missing: what sends the e-mails")
            return nil
        }
        let allowed = "a URL like smtp://mail.example.com:587, or smtps:// for TLS from the start"
        guard let match = url.wholeMatch(of: /(smtps?):\/\/(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]+))?/),
            let port = UInt16(asPrinted: match.output.4 ?? (match.output.1 == "smtps" ? "465" : "587"))
        else {
            // The value may contain a password.
            problems.append(
                "\(place): smtp: cannot be this; allowed: \(allowed); user and password-file stand beside it")
            return nil
        }
        guard let sender = EmailAddress(texts["sender"] ?? "") else {
            problems.append("\(place): sender has to be an address, like My App <noreply@example.com>")
            return nil
        }
        if texts["password-file"] != nil, texts["user"] == nil {
            problems.append("\(place): password-file: only with user")
        }
        return SMTPServer(
            host: String(match.output.2 ?? match.output.3 ?? ""), port: Int(port),
            beginsWithTLS: match.output.1 == "smtps", sender: sender, user: texts["user"],
            passwordFile: texts["password-file"], authority: texts["ca"])
    }

    private mutating func template(_ node: Node, _ kind: AccountEmail.Kind, place: String) -> EmailSettings.Template {
        var template = EmailSettings.Template(kind)
        for (key, value) in node.mapping ?? [:] {
            let name = key.scalar?.string ?? ""
            guard Self.templateKeys.contains(name) else {
                problems.append("\(place): " + KnownWords.unknown("setting", name, of: Self.templateKeys))
                continue
            }
            let text = text(value, place: "\(place): \(name)") ?? ""
            switch name {
            case "url": template.url = text
            case "subject": template.subject = text
            default: template.text = text
            }
        }
        if template.url.wholeMatch(of: /[A-Za-z][A-Za-z0-9+.-]*:\/\/[!-~]+/) == nil {
            problems.append(
                "\(place): url has to be the page that the e-mail leads to, like https://app.example.com/page")
        }
        if !template.text.contains(EmailSettings.Template.urlMark) {
            problems.append("\(place): text has to contain \(EmailSettings.Template.urlMark)")
        }
        return template
    }

    private mutating func words(_ node: Node) -> [String]? {
        let words = node.sequence?.compactMap { $0.scalar?.string } ?? []
        guard words.first?.hasPrefix("/") == true, words.count == node.sequence?.count else {
            problems.append("\(place): command: has to be a list: the path of a program from / on, and its arguments")
            return nil
        }
        return words
    }

    private mutating func text(_ node: Node, place: String) -> String? {
        guard let text = node.scalar?.string, !text.isEmpty else {
            problems.append("\(place): \(AppsSection.found(node)); allowed: a text")
            return nil
        }
        return text
    }
}

extension EmailSettings {
    /// The lines of the configuration file, including everything that has a default.
    func lines(quoted: (String) -> String) -> [String] {
        var lines: [String] = []
        switch way {
        case .command(let words): lines.append("command: [\(words.map(quoted).joined(separator: ", "))]")
        case .smtp(let server):
            let address = ListenAddress(host: server.host, port: server.port)
            let texts = [
                ("smtp", "\(server.beginsWithTLS ? "smtps" : "smtp")://\(address)"), ("user", server.user),
                ("password-file", server.passwordFile), ("sender", server.sender.description),
                ("ca", server.authority),
            ]
            lines += texts.compactMap { name, value in value.map { "\(name): \(quoted($0))" } }
        }
        for kind in AccountEmail.Kind.allCases {
            guard let template = templates[kind] else { continue }
            // Double quotes allow line ends.
            let text = JSONValue.string(template.text).encoded
            lines += [
                "\(Self.name(of: kind)):", "  url: \(quoted(template.url))", "  subject: \(quoted(template.subject))",
                "  text: \(text)",
            ]
        }
        return lines
    }
}
