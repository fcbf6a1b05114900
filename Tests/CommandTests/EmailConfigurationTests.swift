import AnabranchServer
import Testing

@testable import anabranch

/// The section `email` of an app.
@Suite struct EmailConfigurationTests {
    /// An app with this section.
    private static func email(_ section: String, provider: String = "local-userpass") -> String {
        "apps: {a: {providers: [\(provider)], email: {\(section)}}}"
    }

    @Test func eMailsArePrintedAsTheyAreRead() throws {
        let yaml = """
            smtp-password: a secret
            apps:
              a: {providers: [local-userpass], email: {smtp: 'smtps://[::1]', sender: 'É <a@b>', user: u,
                confirm: {url: 'https://x/y?z=1'}, reset: {url: 'app://r', subject: "it's", text: "{url}\n\\ 'é'"}}}
              b: {providers: [local-userpass], email: {command: [/bin/x, --a b], reset: {url: 'app://r'}}}
            """
        let configuration = try ConfigurationTests.configuration(yaml)
        #expect(configuration.apps["a"]?.emails == [.confirmation, .reset])
        #expect(configuration.apps["b"]?.emails == [.reset])
        guard case .smtp(let server) = configuration.emails["a"]?.way else {
            Issue.record("no server")
            return
        }
        #expect(server.host == "::1" && server.port == 465 && server.beginsWithTLS && server.isLoopback)
        let printed = try ConfigurationTests.configuration(
            configuration.yaml, environment: ["ANABRANCH_SMTP_PASSWORD": "x"])
        #expect(printed.emails == configuration.emails && printed.apps == configuration.apps)
        #expect(!configuration.yaml.contains("a secret"))
        #expect(configuration.yaml.contains("# smtp-password is set, and not shown"))
        #expect(configuration.emailSenders["a"]?.password == "a secret")
        let withoutPassword = ConfigurationTests.complaint(
            Self.email("smtp: smtp://h, sender: a@b, user: u, reset: {url: a://b}"))
        #expect(withoutPassword == "apps: a: email: user needs a password-file, or the setting smtp-password")
    }

    @Test(arguments: [
        (
            email("smtp: 'smtp://u:p@h', sender: a@b, reset: {url: a://b}"),
            "email: smtp: cannot be this; allowed: a URL"
        ),
        (email("reset: {url: a://b}"), "email: smtp or command is missing"),
        (email("command: [send], reset: {url: a://b}"), "email: command: has to be a list"),
        (email("command: [/x], sender: a@b, reset: {url: a://b}"), "email: sender: not with command"),
        (email("smtp: smtp://h, sender: a@b"), "email: confirm and reset are missing"),
        (email("smtp: smtp://h, sender: ab, reset: {url: a://b}"), "email: sender has to be an address"),
        (email("smtp: smtp://h, sender: a@b, reset: {}"), "email: reset: url has to be the page"),
        (email("smtp: smtp://h, sender: a@b, reset: {url: a://b, text: x}"), "reset: text has to contain {url}"),
        (email("smtp: smtp://h, sender: a@b, reset: {url: a://b, color: x}"), "there is no setting 'color'"),
        (email("smtp: smtp://h, sender: a@b, password-file: u, reset: {url: a://b}"), "password-file: only with user"),
        (
            email("smtp: smtp://h, sender: a@b, reset: {url: a://b}", provider: "anon-user"),
            "email: only with the provider local-userpass"
        ),
    ])
    func aMistakeInItNamesItself(yaml: String, complaint: String) {
        let found = ConfigurationTests.complaint(yaml)
        #expect(found.contains(complaint) && found.contains(".yaml: apps: a: email: "), "\(found)")
    }
}
