import AnabranchClient
import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import ArgumentParser
import CommandSupport
import Foundation
import UnixSignals

/// `anabranch client watch`.
struct ClientWatch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Stay connected, and print what changes, until SIGINT.",
        discussion: """
            A JSON object a line. {"changed": […], "version": 7} has the objects that a transaction of the server has \
            changed, as [class, primary key, fields] with what they hold now, or null in place of the fields if they \
            are gone; `anabranch client write` takes these arrays as lines. {"status": "running"} says how the \
            connection stands: offline, connecting, running, waiting, resetting or stopped, the latter with a \
            "reason". A lost connection is made again. SIGINT and SIGTERM end it with exit status 0; if the server \
            ends it for good, the status is 1.

            EXAMPLES
              anabranch client watch --data ./replicas --path '/"notes"' \\
                  --url ws://127.0.0.1:9090
              anabranch client watch --data ./replicas --path my-app \\
                  --url wss://sync.example.com | jq .changed
            """)

    @OptionGroup var options: ClientOptions

    func validate() throws {
        guard options.url != nil else { throw ValidationError("Nothing changes without a server: give --url.") }
    }

    func run() async throws {
        guard let server = try options.server() else { return }
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        try await options.withReplica { open in
            let replica = open.replica, events = await replica.events()
            Self.show(["status": .string(Self.words(await replica.syncStatus))])
            let client = try await options.connect(replica, to: server)
            let reason = try await withThrowingTaskGroup(of: SyncError?.self) { group in
                group.addTask {
                    for await _ in signals { break }
                    return nil
                }
                group.addTask { try await Self.follow(events, of: replica) }
                defer { group.cancelAll() }
                return try await group.next() ?? nil
            }
            await client.stop()
            if let reason { throw InputError(description: "\(server): \(reason)") }
        }
    }

    /// - Returns: the reason why nothing more happens; nil if it was interrupted.
    private static func follow(
        _ events: AsyncStream<ReplicaEvent>, of replica: SyncedReplica
    ) async throws -> SyncError? {
        for await event in events {
            switch event {
            case .changed(let version, let objects, _):
                let state = try await replica.snapshot().state
                show(try text(of: objects, at: version, in: state))
            case .status(let status):
                var line: [String: JSONValue] = ["status": .string(words(status))]
                if let error = reason(status) { line["reason"] = .string(error.reason) }
                show(.object(line))
                if case .stopped(let error) = status { return error }
            case .writesUndone(let error): show(["undone": .string(error.message)])
            case .mergedAway(let changes):
                for change in changes {
                    show(["merged_away": .string(change.change), "rule": .string(change.rule.rawValue)])
                }
            case .resetBegins: show(["reset": "begins"])
            case .resetEnded(let report):
                show(["reset": "ended", "backup": report.backupPath.map { .string($0) } ?? .null])
            }
        }
        return nil
    }

    private static func text(
        of objects: [ObjectReference], at version: ClientVersion, in state: ObjectGraph
    ) throws -> [UInt8] {
        var text = Array("{\"changed\":[".utf8), isFirst = true
        for reference in objects {
            guard let schema = state.schema(of: reference.classID) else { continue }
            text += isFirst ? [UInt8(ascii: "[")] : Array(",[".utf8)
            isFirst = false
            JSONText.append(string: schema.name, to: &text)
            text.append(UInt8(ascii: ","))
            if let object = try state.object(reference) {
                // Its first byte is a bracket, which is printed before the class.
                text += try state.canonicalJSON(of: object).dropFirst()
            } else {
                JSONText.append(reference.key, .canonical, to: &text)
                text += Array(",null]".utf8)
            }
        }
        return text + Array("],\"version\":\(version)}".utf8)
    }

    private static func words(_ status: SyncStatus) -> String {
        switch status {
        case .offline: "offline"
        case .connecting: "connecting"
        case .running: "running"
        case .waiting: "waiting"
        case .resetting: "resetting"
        case .stopped: "stopped"
        }
    }

    private static func reason(_ status: SyncStatus) -> SyncError? {
        switch status {
        case .waiting(let error), .stopped(let error): error
        case .offline, .connecting, .running, .resetting: nil
        }
    }

    private static func show(_ line: JSONValue) { show(Array(line.encoded.utf8)) }

    /// Prints a line at once, without waiting for the buffer to fill.
    private static func show(_ line: [UInt8]) {
        StandardOutput.write(line: line)
        fflush(nil)
    }
}
