import AnabranchClient
import AnabranchCore
import AnabranchReplica
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch client status`.
struct ClientStatus: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Say how far a replica is synchronized.",
        discussion: """
            Who it is for the server, how far it has downloaded and uploaded, what waits to be uploaded, and what has \
            become of its subscriptions. With --url it is synchronized before. With --verify all of the file is read \
            and checked; if it is damaged, the exit status is 1.

            EXAMPLES
              anabranch client status --data ./replicas --path '/"notes"'
              anabranch client status --data ./replicas --path my-app --json | jq .unsynced
            """)

    @OptionGroup var options: ClientOptions

    @Flag(help: "Print a JSON object.")
    var json = false

    @Flag(help: "Read everything, and check that it is what was written.")
    var verify = false

    func run() async throws {
        let snapshot = try await options.snapshot()
        if verify { try snapshot.verify() }
        let report = ReplicaReport(snapshot, file: try options.file())
        print(json ? report.json.encoded : report.text)
    }
}

/// The report on a replica.
private struct ReplicaReport {
    private let record: ReplicaRecord
    private let file: String
    private var unsynced = (transactions: 0, bytes: 0)

    init(_ snapshot: ReplicaSnapshot, file: String) {
        record = snapshot.record
        self.file = file
        for version in snapshot.log where version.bytes > 0 && version.number > record.progress.upload.clientVersion {
            unsynced.transactions += 1
            unsynced.bytes += version.bytes
        }
    }

    private func number(_ number: some TypedNumber) -> JSONValue { .integer(Int64(clamping: number.rawValue)) }

    var json: JSONValue {
        let progress = record.progress
        return [
            "file": .string(file),
            "ident": record.file.map { number($0.ident) } ?? .null,
            "version": number(record.version),
            "download": [
                "server_version": number(progress.cursor.serverVersion),
                "client_version": number(progress.cursor.clientVersion),
            ],
            "upload": [
                "server_version": number(progress.upload.serverVersion),
                "client_version": number(progress.upload.clientVersion),
            ],
            "latest_server_version": number(progress.latest.version),
            "unsynced": [
                "transactions": .integer(Int64(unsynced.transactions)), "bytes": .integer(Int64(unsynced.bytes)),
            ],
            "is_recovering": .bool(record.isRecovering),
            "subscription_sets": record.subscriptions.map { .array($0.entries.map(Self.json)) } ?? .null,
        ]
    }

    private static func json(_ entry: SubscriptionSets.Entry) -> JSONValue {
        let (state, reason) = words(entry.state)
        return [
            "version": .integer(Int64(clamping: entry.version.rawValue)), "state": .string(state),
            "reason": reason.map { .string($0) } ?? .null,
            "subscriptions": .array(
                entry.subscriptions.map { one in
                    [
                        "name": one.name.map { .string($0) } ?? .null, "class": .string(one.className),
                        "query": .string(one.query),
                    ]
                }),
        ]
    }

    private static func words(_ state: SubscriptionSets.State) -> (state: String, reason: String?) {
        switch state {
        case .pending: ("pending", nil)
        case .bootstrapping: ("bootstrapping", nil)
        case .awaitingMark: ("active", nil)
        case .complete: ("complete", nil)
        case .refused(let reason): ("refused", reason)
        }
    }

    var text: String {
        let progress = record.progress
        var lines = [
            "file        \(file)",
            "ident       \(record.file.map { "\($0.ident)" } ?? "none: never connected")",
            "version     \(record.version)",
            "downloaded  server version \(progress.cursor.serverVersion) of \(progress.latest.version)",
            "uploaded    version \(progress.upload.clientVersion)",
            "unsynced    \(counted(unsynced.transactions, "transaction")), \(counted(unsynced.bytes, "byte"))",
        ]
        if record.isRecovering { lines.append("reset       what was recovered is not uploaded yet") }
        for entry in record.subscriptions?.entries ?? [] {
            let (state, reason) = Self.words(entry.state)
            lines.append("set \(entry.version)".padded + "\(state)\(reason.map { ": \($0)" } ?? "")")
            for one in entry.subscriptions {
                lines.append("".padded + "\(one.className): \(one.query)\(one.name.map { " (\($0))" } ?? "")")
            }
        }
        return lines.joined(separator: "\n")
    }
}

extension String {
    /// The text padded to the width of the first column.
    fileprivate var padded: String { padding(toLength: max(12, count + 2), withPad: " ", startingAt: 0) }
}
