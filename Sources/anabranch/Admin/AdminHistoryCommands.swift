import ArgumentParser
import CommandSupport
import Foundation
import NIOCore

struct AdminFile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "file", abstract: "One synced file: its kept history, and the clients it is kept for.",
        discussion: """
            A log keeps what some client may still need: the line `kept by` names the client file that needs most. If \
            its device is gone for good, `admin expire --dry-run` says what could go without it. A line `full` says \
            that the log is as long as it may be, so that changes of clients wait, and what to do.

            EXAMPLES
              anabranch admin file 'my-app/"notes"' --data ./data
            """)

    private struct File: Decodable {
        struct Pin: Decodable {
            var client: UInt64, user: String?, version: UInt64, last_seen: Double, bytes: UInt64

            var text: String {
                let seen = Date(timeIntervalSince1970: last_seen).formatted(.iso8601)
                return "client \(client) of \(user ?? "-"), last seen \(seen): everything after version \(version), "
                    + "\(bytes) bytes"
            }
        }

        var version: UInt64, base_version: UInt64, sealed_version: UInt64, log_bytes: UInt64
        var archived_bytes: UInt64
        var state_version: UInt64, state_bytes: UInt64, generation_version: UInt64, clients: UInt64
        var first_generation_bytes: UInt64, log_bytes_max: UInt64?, full: Bool
        var pinned_by: Pin?

        private var generation: String {
            if generation_version > 0 { return "of version \(generation_version)" }
            if log_bytes > first_generation_bytes { return "none; made as soon as clients need less of the log" }
            return "none; made after \(first_generation_bytes) bytes of changes, before that nothing goes"
        }

        /// The remedy for a log that has reached its limit.
        private var fullRow: [String]? {
            guard full, let log_bytes_max else { return nil }
            let remedy = pinned_by == nil ? "admin maintain" : "admin expire of who keeps it and admin maintain"
            return [
                "full",
                "more than partition-bytes (\(log_bytes_max)), so changes of clients wait; \(remedy), admin delete or "
                    + "a higher limit frees it",
            ]
        }

        var rows: [[String]] {
            [
                ["version", "\(version)"],
                [
                    "log",
                    "\(counted(version - base_version, "entry")) after version \(base_version), \(log_bytes) bytes",
                ],
                ["sealed", "up to version \(sealed_version)"],
                ["archive", "\(archived_bytes) bytes"],
                ["state", "at version \(state_version), \(state_bytes) bytes"],
                ["generation", generation],
                ["clients", "\(clients)"],
                ["kept by", pinned_by?.text ?? "nobody"],
            ] + (fullRow.map { [$0] } ?? [])
        }
    }

    @OptionGroup var options: AdminOptions
    @Argument(help: "The synced file, as `admin files` shows it.")
    var file: String

    func run() async throws {
        try await options.run { client in
            let answer = try await client.get("/v1/file", [("path", file)])
            if options.json { return show(answer) }
            let found = try JSONDecoder().decode(File.self, from: answer)
            print(TextTable(columns: ["PATH", file], rows: found.rows), terminator: "")
        }
    }
}

struct AdminMaintain: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "maintain", abstract: "Do now what the server does by itself in time: free what nobody needs.",
        discussion: """
            Seals old log entries, lets client files expire that were away for too long, lets log entries go that \
            nobody needs any more, and gives their space back to the disk, unless the configuration sends them to the \
            archive (`keep` in `history`). The server goes on serving. It does the \
            same by itself: in files that are written, and once a day in all of them.

            When its clock has jumped, the server lets nobody expire, and says so in its log. --trust-clock says that \
            the clock is right now.

            EXAMPLES
              anabranch admin maintain --data ./data
              anabranch admin maintain --path 'my-app/"notes"' --data ./data
              anabranch admin maintain --trust-clock --data ./data
            """)

    @OptionGroup var options: AdminOptions
    @Option(help: ArgumentHelp("Only this synced file, as `admin files` shows it.", valueName: "file"))
    var path: String?
    @Flag(help: "The clock is right: client files may expire by it.")
    var trustClock = false

    func run() async throws {
        try await options.run { server in
            var maintenance = Maintenance(server: server, isQuiet: options.json)
            if trustClock { try await maintenance.trustClock() }
            if let path { try await maintenance.maintainOne(path) } else { try await maintenance.maintainAll() }
            try await maintenance.maintainStore()
            if options.json { show(try maintenance.result.json()) } else { maintenance.printEnd() }
        }
    }
}

/// Maintains files and the store, and keeps account of it.
private struct Maintenance {
    struct Result: Encodable {
        /// The work that was done, by the paths of the files. Files in which nothing was done are left out.
        var files: [String: FileReport] = [:]
        /// The number of files that were looked at, and the number of all files.
        var looked = 0
        var of = 0
        /// Nil if the store cannot tell.
        var freed_bytes: UInt64?

        func json() throws -> Data {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return try encoder.encode(self)
        }
    }

    struct FileReport: Codable {
        struct Expired: Codable { var client: UInt64, user: String?, reason: String, last_seen: Double }

        var sealed_entries: UInt64, sealed_bytes: UInt64, trimmed_entries: UInt64, trimmed_bytes: UInt64
        var archived_entries: UInt64, archived_bytes: UInt64
        var generations_made: UInt64, generation_bytes: UInt64, generations_dropped: UInt64
        var expired: [Expired]

        var isEmpty: Bool { text.isEmpty }

        var text: String {
            var words: [String] = []
            if sealed_entries > 0 { words.append("\(counted(sealed_entries, "entry")) sealed (\(sealed_bytes) bytes)") }
            if generations_made > 0 {
                words.append("\(counted(generations_made, "generation")) made (\(generation_bytes) bytes)")
            }
            if generations_dropped > 0 { words.append("\(counted(generations_dropped, "generation")) dropped") }
            let (gone, bytes) = (trimmed_entries - archived_entries, trimmed_bytes - archived_bytes)
            if gone > 0 { words.append("\(counted(gone, "entry")) gone (\(bytes) bytes)") }
            if archived_entries > 0 {
                words.append("\(counted(archived_entries, "entry")) archived (\(archived_bytes) bytes)")
            }
            words += expired.map { file in
                let seen = Date(timeIntervalSince1970: file.last_seen).formatted(.iso8601)
                return "client \(file.client) of \(file.user ?? "-") expired (\(file.reason), last seen \(seen))"
            }
            return words.joined(separator: ", ")
        }
    }

    struct Nothing: Encodable {}
    struct Path: Encodable { var path: String }
    struct Jump: Decodable { var jump: Int64 }
    struct Freed: Decodable { var freed_bytes: UInt64? }

    /// Long, since a file can have gigabytes to seal.
    private static let timeout = TimeAmount.hours(12)
    private static let isTerminal = isatty(STDERR_FILENO) == 1

    let server: AdminClient
    let isQuiet: Bool
    var result = Result()

    mutating func trustClock() async throws {
        let answer = try await server.post("/v1/clock/trust", Nothing())
        let jump = try JSONDecoder().decode(Jump.self, from: answer).jump
        guard !isQuiet else { return }
        print(jump == 0 ? "the clock was trusted already" : "the clock is trusted, which had jumped by \(jump) s")
    }

    mutating func maintainAll() async throws {
        var next: String?
        repeat {
            let answer = try await server.get("/v1/files", [("after", next), ("limit", "1000")])
            let page = try JSONDecoder().decode(AdminFiles.Listing.self, from: answer)
            for file in page.files {
                result.of += 1
                if file.may_be_due { try await maintain(file.path) }
            }
            next = page.next
        } while next != nil
        tell("")
    }

    mutating func maintainOne(_ path: String) async throws {
        result.of = 1
        try await maintain(path)
    }

    private mutating func maintain(_ path: String) async throws {
        tell("file \(result.looked + 1): \(path)")
        let answer = try await server.post("/v1/files/maintain", Path(path: path), timeout: Self.timeout)
        let report = try JSONDecoder().decode(FileReport.self, from: answer)
        result.looked += 1
        guard !report.isEmpty else { return }
        result.files[path] = report
        tell("")
        if !isQuiet { print("\(path): \(report.text)") }
    }

    mutating func maintainStore() async throws {
        tell("freeing space")
        let answer = try await server.post("/v1/store/maintain", Nothing(), timeout: Self.timeout)
        result.freed_bytes = try JSONDecoder().decode(Freed.self, from: answer).freed_bytes
        tell("")
    }

    func printEnd() {
        print("files looked at: \(result.looked) of \(result.of), something was due in: \(result.files.count)")
    }

    /// Shows progress on a terminal, in one line that changes.
    private func tell(_ text: String) {
        guard Self.isTerminal else { return }
        FileHandle.standardError.write(Data("\r\u{1b}[2K\(text.prefix(79))".utf8))
    }
}
