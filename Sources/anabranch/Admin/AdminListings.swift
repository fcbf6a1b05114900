import AnabranchCore
import ArgumentParser
import Foundation

/// A list that the server returns in pages.
protocol AdminListing: Decodable {
    static var path: String { get }
    static var columns: [String] { get }
    var rows: [[String]] { get }
    /// The position where the next page begins; nil after the last one.
    var next: String? { get }
    /// Another table to show after the list; nil if there is none.
    var other: TextTable? { get }
}

extension AdminListing {
    var other: TextTable? { nil }
}

/// The options that choose a page of a list.
struct PageOptions: ParsableArguments {
    @Option(help: "Where to go on, as the page before says.")
    var after: String?

    @Option(help: "How many at most. (default: 100)")
    var limit: Int?

    @Flag(help: "Page after page, to the end. With --json each is a line.")
    var all = false

    func validate() throws {
        guard !all || limit == nil else { throw ValidationError("give --limit or --all, not both") }
    }

    /// - Parameter query: the parameters of the list, apart from the page.
    func show<Listing: AdminListing>(
        _ listing: Listing.Type, _ query: [(String, String?)], _ options: AdminOptions
    ) async throws {
        try await options.run { client in
            var next = after, isFirst = true, other: TextTable?
            repeat {
                let answer = try await client.get(
                    Listing.path, query + [("after", next), ("limit", all ? "1000" : limit.map { "\($0)" })])
                let page = try JSONDecoder().decode(Listing.self, from: answer)
                next = page.next
                if options.json {
                    anabranch.show(answer)
                } else if isFirst || !page.rows.isEmpty {
                    print(TextTable(columns: Listing.columns, rows: page.rows), terminator: "")
                }
                other = other ?? page.other
                isFirst = false
            } while all && next != nil
            guard !options.json else { return }
            if let next { print("more: --after '\(next)', or --all") }
            if let other { print("\n\(other)", terminator: "") }
        }
    }
}

struct AdminFiles: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "files", abstract: "The synced files.",
        discussion: """
            A file is shown as the app's id, a slash, and the partition value; bytes that cannot be seen, and %, are \
            shown as % and two digits. The log begins after version BASE and has BYTES of changes; ARCHIVE is what \
            the archive occupies, in bytes. CLIENTS counts all client files, expired ones included. `admin file` says \
            more.

            EXAMPLES
              anabranch admin files --limit 1000 --data ./data
            """)

    struct Listing: AdminListing {
        struct File: Decodable {
            var path: String, version: UInt64, base_version: UInt64, log_bytes: UInt64, archived_bytes: UInt64
            var clients: UInt64, may_be_due: Bool

            var row: [String] {
                [path] + [version, base_version, log_bytes, archived_bytes, clients].map { "\($0)" }
            }
        }

        static let path = "/v1/files"
        static let columns = ["PATH", "VERSION", "BASE", "BYTES", "ARCHIVE", "CLIENTS"]
        var files: [File]
        var next: String?
        var rows: [[String]] { files.map(\.row) }
    }

    @OptionGroup var options: AdminOptions
    @OptionGroup var page: PageOptions

    func run() async throws { try await page.show(Listing.self, [], options) }
}

struct AdminClients: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clients", abstract: "The client files of a synced file.",
        discussion: """
            Of clients that are connected also the release of realm-core, and its known defects: Spec/Protocol.md, \
            section 6.1, says what they are and from which release on they are gone. Of clients of flexible sync also \
            what they ask for, by class.

            Clients of doors, such as Simperium's, have no client files: a second table shows those that have the file \
            open now. With --after it is not there.

            EXAMPLES
              anabranch admin clients 'my-app/"notes"' --data ./data
            """)

    struct Listing: AdminListing {
        struct Client: Decodable {
            var client: UInt64, user: String?
            var client_version: UInt64, server_version: UInt64, last_seen: Double?
            var release: String?, known_defects: [String]?, queries: [String: String]?
        }

        struct Channel: Decodable {
            var door: String, user: String?, client: String, bucket: String?, library: String?, since: Double
        }

        static let path = "/v1/clients"
        static let columns = [
            "CLIENT", "USER", "CLIENT VERSION", "SERVER VERSION", "LAST SEEN", "RELEASE", "KNOWN DEFECTS",
            "QUERIES",
        ]
        var clients: [Client]
        var channels: [Channel]?
        var next: String?
        var other: TextTable? {
            channels.map { channels in
                TextTable(
                    columns: ["DOOR", "USER", "CLIENT", "BUCKET", "LIBRARY", "SINCE"],
                    rows: channels.map { channel in
                        let client = LogStream.escaped(channel.client.prefix(200))
                        let library = channel.library.map { LogStream.escaped($0[...]) } ?? "-"
                        let since = Date(timeIntervalSince1970: channel.since).formatted(.iso8601)
                        return [channel.door, channel.user ?? "-", client, channel.bucket ?? "-", library, since]
                    })
            }
        }
        var rows: [[String]] {
            clients.map { client in
                let defects = client.known_defects.map { $0.isEmpty ? "-" : $0.joined(separator: " ") } ?? "-"
                let seen = client.last_seen.map { Date(timeIntervalSince1970: $0).formatted(.iso8601) } ?? "expired"
                // These are written by clients. With --json they are whole.
                let queries = (client.queries ?? [:]).sorted { $0.key < $1.key }.map { name, query in
                    LogStream.escaped("\(name): \(query)".prefix(200))
                }
                return [
                    "\(client.client)", client.user ?? "-", "\(client.client_version)", "\(client.server_version)",
                    seen, client.release ?? "-", defects,
                    queries.isEmpty ? "-" : queries.joined(separator: "; "),
                ]
            }
        }
    }

    @OptionGroup var options: AdminOptions
    @OptionGroup var page: PageOptions
    @Argument(help: "The synced file, as `admin files` shows it.")
    var file: String

    func run() async throws { try await page.show(Listing.self, [("path", file)], options) }
}

struct AdminHistory: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history", abstract: "The log of a synced file: versions, origins and sizes.",
        discussion: "EXAMPLES\n  anabranch admin history 'my-app/\"notes\"' --after 1000 --data ./data")

    struct Listing: AdminListing {
        struct Entry: Decodable {
            var version: UInt64, client: UInt64, client_version: UInt64, timestamp: UInt64, bytes: Int
        }

        static let path = "/v1/history"
        static let columns = ["VERSION", "CLIENT", "CLIENT VERSION", "CHANGED", "BYTES"]
        var history: [Entry]
        var next: String?
        var rows: [[String]] {
            history.map { entry in
                let time = Date(timeIntervalSince1970: ChangesetTime(rawValue: entry.timestamp).secondsSince1970)
                return [
                    "\(entry.version)", "\(entry.client)", "\(entry.client_version)", time.formatted(.iso8601),
                    "\(entry.bytes)",
                ]
            }
        }
    }

    @OptionGroup var options: AdminOptions
    @OptionGroup var page: PageOptions
    @Argument(help: "The synced file, as `admin files` shows it.")
    var file: String

    func run() async throws { try await page.show(Listing.self, [("path", file)], options) }
}

struct AdminSessions: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sessions", abstract: "The sessions that are open.",
        discussion: "EXAMPLES\n  anabranch admin sessions --json --data ./data | jq '.sessions[].user'")

    struct Listing: AdminListing {
        struct Session: Decodable {
            var connection: UInt64, session: UInt64, path: String, client: UInt64
            var user: String?, remote: String?, `protocol`: String
        }

        static let path = "/v1/sessions"
        static let columns = ["CONNECTION", "SESSION", "PATH", "CLIENT", "USER", "REMOTE", "PROTOCOL"]
        var sessions: [Session]
        var next: String?
        var rows: [[String]] {
            sessions.map { session in
                [
                    "\(session.connection)", "\(session.session)", session.path, "\(session.client)",
                    session.user ?? "-", session.remote ?? "-", session.protocol,
                ]
            }
        }
    }

    @OptionGroup var options: AdminOptions
    @OptionGroup var page: PageOptions

    func run() async throws { try await page.show(Listing.self, [], options) }
}

/// A table for people: each column is as wide as its widest word, and two spaces separate them.
struct TextTable: CustomStringConvertible {
    let columns: [String]
    let rows: [[String]]

    var description: String {
        let lines = [columns] + rows
        let widths = columns.indices.map { index in lines.map { $0[index].count }.max() ?? 0 }
        return lines.map { line in
            zip(line, widths).map { word, width in word.padding(toLength: width, withPad: " ", startingAt: 0) }
                .joined(separator: "  ").replacing(#/ +$/#, with: "") + "\n"
        }.joined()
    }
}
