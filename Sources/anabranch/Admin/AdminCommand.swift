import AnabranchServer
import ArgumentParser
import Foundation

/// `anabranch admin`: looks into a running server and intervenes.
struct AdminCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "admin",
        abstract: "Look into a running server, and intervene.",
        discussion: """
            Sends requests to the server's admin interface. On its machine the data directory says where that is and \
            what its token is: give --data or the server's --config. Elsewhere --at and --token-file do, or \
            ANABRANCH_ADMIN_AT and ANABRANCH_ADMIN_TOKEN in the environment. Lists come as tables, or with --json as \
            the server sends them. The exit status is 0 if the server did what it was asked, and 1 if not.

            EXAMPLES
              anabranch admin health --data ./data
              anabranch admin files --data ./data
              anabranch admin clients 'my-app/"notes"' --data ./data
              anabranch admin why 'my-app/"notes"' --app my-app --email ann@example.com \\
                  --data ./data
              anabranch admin sessions --json --data ./data
              anabranch admin revoke 5f0c2d9e8b7a6c5d4e3f2a1b --data ./data
              anabranch admin metrics --at https://sync.example.com:9091 --token-file token
            """,
        subcommands: [
            AdminHealth.self, AdminReady.self, AdminMetrics.self, AdminFiles.self, AdminFile.self, AdminClients.self,
            AdminHistory.self, AdminExplain.self, AdminIngested.self, AdminSessions.self, AdminUsers.self,
            AdminWhy.self, AdminDoors.self, AdminSimperium.self, AdminOverTheAir.self, AdminDisconnect.self,
            AdminExpire.self, AdminMaintain.self, AdminDelete.self, AdminRevoke.self, AdminDisable.self,
            AdminEnable.self,
        ])
}

/// The options that say how to reach the server.
struct AdminOptions: ParsableArguments {
    @OptionGroup var store: StoreOption

    @Option(
        help: ArgumentHelp(
            "Where the admin interface is. (default: $ANABRANCH_ADMIN_AT, or what the data directory says)",
            valueName: "url"))
    var at: String?

    @Option(
        help: ArgumentHelp(
            "The file with its token. (default: $ANABRANCH_ADMIN_TOKEN, or admin-token in the data directory)",
            valueName: "file"))
    var tokenFile: String?

    @Option(help: ArgumentHelp("Certificates that vouch for the server's, in PEM, for https.", valueName: "file"))
    var ca: String?

    @Flag(help: "Print what the server answers, as it is.")
    var json = false

    /// Runs `body` with a client of the server.
    func run(_ body: (AdminClient) async throws -> Void) async throws { try await body(try client()) }

    private func client() throws -> AdminClient {
        let settings = try store.configuration(needsData: false)
        let written = ProcessInfo.processInfo.environment["ANABRANCH_ADMIN_AT"]
        let address = try (at ?? written).map { AdminAddress(url: $0) } ?? announcedAddress()
        let word = tokenFile == nil ? settings.adminToken : nil
        let token =
            try word
            ?? AdminToken.text(
                path: tokenFile ?? settings.adminTokenFile ?? store.configuration().adminTokenPath)
        return try AdminClient(address: address, token: token, authority: ca)
    }

    private func announcedAddress() throws -> AdminAddress {
        let configuration = try store.configuration()
        if let address = try AdminAddress(path: configuration.adminAddressPath) { return address }
        let folder = URL(fileURLWithPath: configuration.data, isDirectory: true).path
        guard FileManager.default.fileExists(atPath: folder) else {
            throw AdminError(description: "\(folder): no such directory")
        }
        throw AdminError(description: "no server is running over \(folder), or its admin interface is off")
    }
}

/// Prints an answer of the server, and a newline after it.
func show(_ answer: Data) {
    let text = String(decoding: answer, as: UTF8.self)
    print(text, terminator: text.hasSuffix("\n") ? "" : "\n")
}

struct AdminHealth: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health", abstract: "Whether the server answers: for health checks.",
        discussion: """
            EXAMPLES
              anabranch admin health --data /var/lib/anabranch \\
                  || systemctl restart anabranch
            """)

    @OptionGroup var options: AdminOptions

    func run() async throws { try await options.run { try await report(of: "/health", from: $0, options) } }
}

struct AdminReady: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ready", abstract: "Whether the server serves clients, and its store takes changes.",
        discussion: """
            EXAMPLES
              anabranch admin ready --data /var/lib/anabranch
              anabranch admin ready --data /var/lib/anabranch --wait 60
            """)

    @OptionGroup var options: AdminOptions
    @Option(help: ArgumentHelp("Wait for so long until it is so.", valueName: "seconds"))
    var wait = 0

    func validate() throws {
        guard (0...86_400).contains(wait) else { throw ValidationError("--wait must be from 0 to 86400.") }
    }

    func run() async throws {
        let end = ContinuousClock.now + .seconds(wait)
        while true {
            do {
                return try await options.run { try await report(of: "/ready", from: $0, options) }
            } catch {
                guard ContinuousClock.now < end else { throw error }
                try await Task.sleep(for: .milliseconds(100))
            }
        }
    }
}

private func report(of path: String, from client: AdminClient, _ options: AdminOptions) async throws {
    struct Report: Decodable { var status: String }
    let answer = try await client.get(path)
    if options.json { return show(answer) }
    print(try JSONDecoder().decode(Report.self, from: answer).status)
}

struct AdminMetrics: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "metrics", abstract: "What the server counts, in the text format of Prometheus.",
        discussion: "EXAMPLES\n  anabranch admin metrics --data ./data | grep commit_duration")

    @OptionGroup var options: AdminOptions

    func run() async throws { try await options.run { show(try await $0.get("/metrics")) } }
}
