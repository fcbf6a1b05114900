import AnabranchClient
import AnabranchCore
import AnabranchHTTP
import AnabranchOverTheAirDevice
import AnabranchPropertyList
import ArgumentParser
import CommandSupport
import Foundation
import Synchronization

/// `anabranch ota sync`.
struct OverTheAirSync: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync",
        abstract: "Sync the records of the device with a server.",
        discussion: """
            The first session is a slow one: all records are sent, and the server finds out which of its own they \
            are. Later ones are fast: only changes go, both ways. If the server asks for it, a session is slow again, \
            or a reset: then the records of the device are those of the server.

            The password is that of $ANABRANCH_PASSWORD or --password-file. It is needed once: the log-in is kept in \
            a file beside the store, with the ending .users.

            A server that cannot be reached is an error, with exit status 1; what was edited stays in the store, and \
            so does what had come up to the last checkpoint. Items that the server refuses are listed; a new record \
            that was refused stays on the device, and is sent again once it is edited.

            EXAMPLES
              anabranch ota sync --store phone.sqlite --dataclass contacts.json \\
                  --url https://sync.example.com/ota --app my-app --account ann@example.com
              anabranch ota sync --store phone.sqlite --json \\
                  --url https://sync.example.com/ota --app my-app
            """)

    @OptionGroup var options: DeviceStoreOptions

    @Option(
        help: ArgumentHelp("Where devices send their messages; the path is /ota if there is none.", valueName: "url"))
    var url: String

    @Option(help: ArgumentHelp("The app of the server.", valueName: "app"))
    var app: String

    @Option(
        help: ArgumentHelp("The e-mail address to log in with; needed once for each store.", valueName: "address"))
    var account: String?

    @OptionGroup var input: PasswordInput

    @Option(
        help: ArgumentHelp("Certificates that vouch for the server's, in PEM, beside the system's.", valueName: "file"))
    var ca: String?

    @Flag(help: "Report progress also where standard error is no terminal.")
    var progress = false

    func validate() throws {
        guard account != nil || input.passwordFile == nil else {
            throw ValidationError("--password-file needs --account.")
        }
        _ = try Address(url)
    }

    /// The URL of messages, and that of log-ins.
    private struct Address {
        let endpoint: String
        let base: String

        init(_ text: String) throws(ValidationError) {
            guard let parts = WebURL(text, ports: ["http": 80, "https": 443]), !parts.target.contains("?") else {
                throw ValidationError("--url \(text): a server is as https://sync.example.com/ota")
            }
            let path = parts.basePath.isEmpty ? "/ota" : parts.basePath, start = "\(parts.scheme)://\(parts.authority)"
            endpoint = start + path
            base = start + path[..<(path.lastIndex(of: "/") ?? path.startIndex)]
        }
    }

    func run() async throws {
        let device = try options.device(), address = try Address(url)
        var tls = TLSOptions()
        if let ca { tls.roots = .systemAnd(pem: try TextInput.text(ofFile: ca)) }
        let sender = NIOHTTPSender(tls: tls)
        let client = try AppClient(
            appID: app, baseURL: address.base, store: FileUserStore(path: options.store + ".users"), http: sender)
        let service = PropertyListService(
            url: address.endpoint, client, user: try await user(of: client), sender: sender)
        let line = Mutex(ProgressLine(isAsked: progress))
        let report = try await device.sync(with: service) { messages, items in
            line.withLock { $0.tell { "\(counted(messages, "message")), \(counted(items, "item")) received" } }
        }
        line.withLock { $0.end() }
        for outcome in report.outcomes { try show(outcome, device) }
        if let failed = report.outcomes.first(where: { $0.failure != nil }) {
            throw InputError(description: "\(failed.uri): not synchronized: \(failed.failure ?? "")")
        }
    }

    /// The logged-in user, after a log-in if necessary.
    private func user(of client: AppClient) async throws -> String {
        let users = await client.users.filter(\.isLoggedIn)
        guard let account else {
            if let user = users.first { return user.id }
            throw InputError(description: "\(options.store): nobody has logged in; give --account")
        }
        let known = users.first { user in
            (try? JSONValue(parsing: Array(user.profile.utf8)))?["email"]?.string == account
        }
        if let known { return known.id }
        let written = ProcessInfo.processInfo.environment["ANABRANCH_PASSWORD"].flatMap { $0.isEmpty ? nil : $0 }
        let password = try written ?? input.password(isNew: false)
        return try await client.logIn(.emailPassword(email: account, password: password)).id
    }

    private func show(_ outcome: DeviceReport.Outcome, _ device: PropertyListDevice) throws {
        let records = try device.records(of: outcome.uri).count
        guard options.json else {
            let words = [
                "\(outcome.uri): \(outcome.mode), \(outcome.sent) sent, \(outcome.received) received, "
                    + counted(records, "record"),
                outcome.renegotiation.map { "  the server has asked for it: \($0)" },
            ]
            for line in words.compactMap(\.self) { print(line) }
            for (id, reason) in outcome.refused.sorted(by: { $0.key < $1.key }) { print("  refused: \(id): \(reason)") }
            for (id, fields) in outcome.conflicts {
                print("  conflict: \(id): \((fields.dictionary ?? [:]).keys.joined(separator: ", "))")
            }
            return
        }
        var members: [String: JSONValue] = [
            "dataclass": .string(outcome.uri), "mode": .string(outcome.mode), "sent": .integer(Int64(outcome.sent)),
            "received": .integer(Int64(outcome.received)), "records": .integer(Int64(records)),
            "refused": .object(outcome.refused.mapValues { .string($0) }),
        ]
        members["conflicts"] = outcome.conflicts.isEmpty ? nil : PropertyList.dictionary(outcome.conflicts).json
        members["failure"] = outcome.failure.map { .string($0) }
        members["renegotiation"] = outcome.renegotiation.map { .string($0) }
        StandardOutput.write(line: Array(JSONValue.object(members).encoded.utf8))
    }
}
