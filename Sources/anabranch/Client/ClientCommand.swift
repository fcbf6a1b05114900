import AnabranchClient
import AnabranchCore
import AnabranchHTTP
import AnabranchHistory
import ArgumentParser
import Foundation

/// `anabranch client`: a replica that is written and read offline and syncs with a server.
struct ClientCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "client",
        abstract: "Write and read replicas, with and without a server.",
        discussion: """
            A replica is a file with all objects of a partition, or of what its subscriptions ask for. Without --url \
            the commands work on the replica alone, with or without a network; what is written waits there. With \
            --url they also upload what waits and download what others have written. A server that cannot be reached \
            is an error, with exit status 1; what was written stays in the replica, and the next call with --url \
            uploads it.

            --path is that of the server's commands: `/"notes"` is a partition of clients without an app, \
            `my-app/"notes"` one of an app, `my-app` alone stands for the subscriptions of an app of flexible sync. \
            Below --data each path has a file of its own, its name with the ending .replica; the users who have logged \
            in are in APP.users. The options can stand before the subcommand or after it.

            One command at a time can write a replica; read, query and status work beside it.

            EXAMPLES
              anabranch client write notes.jsonl --data ./replicas --path '/"notes"'
              anabranch client read --data ./replicas --path '/"notes"' \\
                  --url ws://127.0.0.1:9090
              anabranch client query Note 'done == false SORT(title ASC)' \\
                  --data ./replicas --path '/"notes"'
              anabranch client watch --data ./replicas --path '/"notes"' \\
                  --url wss://sync.example.com
              anabranch client subscribe Note 'owner == "ann"' --data ./replicas \\
                  --path my-app
              anabranch client status --data ./replicas --path my-app
            """,
        subcommands: [
            ClientWrite.self, ClientRead.self, ClientQuery.self, ClientWatch.self, ClientStatus.self,
            ClientSubscribe.self, ClientCopy.self,
        ])

    @OptionGroup var options: ClientOptions
}

/// The options that say which replica is meant, and how it syncs.
struct ClientOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The folder with the replicas; made if it is missing.", valueName: "dir"))
    var data: String?

    @Option(help: ArgumentHelp("What the replica is of, as `my-app/\"notes\"`.", valueName: "path"))
    var path: String?

    @Option(
        help: ArgumentHelp(
            "The server, as ws://HOST:PORT, wss://HOST or wss://HOST/PATH; one that ends with /realm-sync is used as "
                + "it stands. Nothing is synced without it.",
            valueName: "url"))
    var url: String?

    @Option(help: ArgumentHelp("How long to wait for the server.", valueName: "seconds"))
    var timeout = 30

    @Option(help: "What to do if the server asks for a client reset (Spec/Replica.md, section 4).")
    var reset = ClientResetChoice.recoverOrDiscard

    @OptionGroup(title: "Log-in") var login: ClientLogin

    @Option(
        help: ArgumentHelp(
            "Certificates that vouch for the server's, in PEM, beside the system's.", valueName: "file"))
    var ca: String?

    func validate() throws {
        guard (1...86_400).contains(timeout) else { throw ValidationError("--timeout must be from 1 to 86400.") }
        guard url != nil || !login.isAsked else { throw ValidationError("A log-in needs a server: give --url.") }
        do {
            if let server = try server(), server.isRoute, login.isAsked {
                throw ValidationError(
                    "--url \(url ?? ""): with a log-in it has to be the server alone, as ws://127.0.0.1:9090 is.")
            }
            // The parent command has these options as well, but only ever prints help.
            guard let path else { return }
            let target = try ClientTarget(path)
            guard !login.isAsked || !target.app.isEmpty else {
                throw ValidationError("Users belong to an app: --path has to name it, as in 'my-app/\"notes\"'.")
            }
        } catch let error as InputError {
            throw ValidationError(error.description)
        }
    }

    func target() throws -> ClientTarget {
        guard let path else { throw ValidationError("Which replica? Give --path.") }
        return try ClientTarget(path)
    }

    func folder() throws -> URL {
        guard let data else { throw ValidationError("Where are the replicas? Give --data.") }
        return URL(fileURLWithPath: data, isDirectory: true)
    }

    func server() throws -> ClientServer? { try url.map { try ClientServer($0) } }

    /// The replica's file.
    func file() throws -> String { try target().file(in: try folder()) }

    func tls() throws -> TLSOptions {
        var options = TLSOptions()
        if let ca { options.roots = .systemAnd(pem: try TextInput.text(ofFile: ca)) }
        return options
    }
}

/// `ResetMode`, as the command line spells it.
enum ClientResetChoice: String, CaseIterable, ExpressibleByArgument {
    case recoverOrDiscard = "recover-or-discard"
    case recover, discard, stop

    var mode: ResetMode {
        switch self {
        case .recoverOrDiscard: .recoverOrDiscard
        case .recover: .recover
        case .discard: .discardLocal
        case .stop: .manual
        }
    }
}

/// The synced file that a replica is of, by the path that it has in the server's commands.
struct ClientTarget {
    private static let nameBytesMax = 200

    /// Empty for partitions of clients without an app.
    let app: String
    /// The value in the canonical text of extended JSON; nil in flexible sync.
    let partition: String?
    /// The name of the replica's files.
    let fileName: String
    /// The name of files made by older versions, which took the path as it was spelled.
    let spelledName: String

    init(_ path: String) throws(InputError) {
        guard let bytes = VirtualPath.meanings(of: path).first?.canonical.bytes,
            let text = String(validating: bytes, as: UTF8.self)
        else {
            throw InputError(description: "--path \(path): it is not UTF-8")
        }
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        app = parts[0]
        partition = parts.count > 1 ? parts[1] : nil
        guard app.isEmpty || app.contains(/^[A-Za-z0-9._~-]+$/) else {
            throw InputError(description: "--path \(path): '\(app)' is not an id of an app")
        }
        guard partition != nil || !app.isEmpty else { throw InputError(description: "--path is empty") }
        if let partition, (try? JSONValue(parsing: partition.utf8)) == nil {
            throw InputError(
                description: """
                    --path \(path): the partition is not JSON; a string stands in quotes, as in --path '\(app)/"notes"'
                    """)
        }
        fileName = Self.encoded(([app] + [partition].compactMap(\.self)).joined(separator: "/"))
        spelledName = Self.encoded(path)
        guard fileName.utf8.count <= Self.nameBytesMax else {
            throw InputError(description: "--path is too long: the replica's file would have no name")
        }
    }

    /// The replica's file. One that is named after another spelling of the partition stays where it is.
    func file(in folder: URL) -> String {
        let files = [spelledName, fileName].map { folder.appendingPathComponent($0 + ".replica").path }
        return FileManager.default.fileExists(atPath: files[0]) ? files[0] : files[1]
    }

    /// The name of the file with the tokens of the app's users.
    var usersName: String { Self.encoded(app) + ".users" }

    private static func encoded(_ text: String) -> String {
        text.utf8.map { byte in
            let character = Character(Unicode.Scalar(byte))
            let isPlain = character.isASCII && (character.isLetter || character.isNumber) || "._-".contains(character)
            return isPlain ? String(character) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
        }.joined()
    }
}

/// The address of the server.
struct ClientServer {
    private let url: String
    private let scheme: String
    private let authority: String
    private let basePath: String
    /// True if the text is the URL of the WebSocket, with a token if one is needed.
    let isRoute: Bool

    init(_ text: String) throws(InputError) {
        let hasQuery = text.contains("?")
        // No WebSocket has an http URL, and the URL of a server has no query.
        let ports = hasQuery ? [:] : ["http": 80, "https": 443]
        guard let parts = WebURL(text, ports: ports.merging(["ws": 80, "wss": 443]) { $1 }) else {
            throw InputError(description: "--url \(text): a server is as ws://127.0.0.1:9090 or wss://sync.example.com")
        }
        url = text
        isRoute = hasQuery || parts.basePath.hasSuffix("/realm-sync")
        basePath = parts.basePath
        scheme = ["wss", "https"].contains(parts.scheme) ? "s" : ""
        authority = parts.authority
    }

    /// The URL of the WebSocket for clients without a token.
    func route(to app: String) -> String {
        if isRoute { return url }
        let path = app.isEmpty ? "/realm-sync" : "/api/client/v2.0/app/\(app)/realm-sync"
        return "ws\(scheme)://\(authority)\(basePath)\(path)?baas_at="
    }

    /// The URL for log-ins.
    var baseURL: String { "http\(scheme)://\(authority)\(basePath)" }
}

extension ClientServer: CustomStringConvertible {
    var description: String { authority }
}
