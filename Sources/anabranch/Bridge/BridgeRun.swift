#if canImport(CLibPQ)
import AnabranchBridge
import AnabranchClient
import ArgumentParser
import CommandSupport
import Foundation
import UnixSignals

/// `anabranch bridge run`.
struct BridgeRun: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Send changed rows, and write what others have sent.",
        discussion: """
            Once, or with --every until SIGINT or SIGTERM. A server or a database that cannot be reached is no error \
            with --every, and the process can be killed at any time. Several can run for one database, each with \
            replicas and a --name of its own: one has the bridge, and another takes it over when that one has given no \
            sign for the time of --take-over.

            Where more than half of the rows of a table have no object, they are not deleted unless --delete-rows \
            says so. --path, --url and the log-in are those of `anabranch client`.

            EXAMPLES
              anabranch bridge run --db postgres://localhost/notes --data ./replicas \\
                  --path '/"notes"' --url ws://127.0.0.1:9090
              anabranch bridge run --db postgres://localhost/notes --data ./replicas \\
                  --path my-app --url wss://sync.example.com --every 0.25 --name b
            """)

    @OptionGroup var bridge: BridgeOptions
    @OptionGroup var options: ClientOptions

    @OptionGroup var repeating: RepeatingOptions

    @Option(help: "The name of this process among those that have replicas of their own.")
    var name = "anabranch"

    @Option(help: ArgumentHelp("The silence of another process after which this one takes over.", valueName: "seconds"))
    var takeOver = 30.0

    @Flag(help: "Delete rows whose objects are gone, even most of a table.")
    var deleteRows = false

    @Flag(help: "Print progress where there is no terminal.")
    var progress = false

    private static let silenceSecondsMax = 86_400.0
    private static let pauseAfterError = 1.0

    func validate() throws {
        guard options.url != nil else { throw ValidationError("Nothing is synced without a server: give --url.") }
        guard !name.isEmpty else { throw ValidationError("--name must not be empty.") }
        guard (0...Self.silenceSecondsMax).contains(takeOver) else {
            throw ValidationError("--take-over must be from 0 to 86400.")
        }
    }

    func run() async throws {
        RowMemory.keepOneHeap()
        RowMemory.forgetCode()
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        let rows = try TableBridge(
            database: bridge.db, replica: try options.fileInFolder(), name: name, file: options.path,
            seconds: bridge.dbTimeout, silence: takeOver, allowsDeletions: deleteRows)
        try await options.telling(rows.replica, closing: { try await rows.close() }) { replica in
            let started = StartedClient()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { for await _ in signals { break } }
                group.addTask { try await exchange(rows, replica, started) }
                defer { group.cancelAll() }
                try await group.next()
            }
            await started.client?.stop()
        }
    }

    private func exchange(_ rows: TableBridge, _ replica: ClientReplica, _ started: StartedClient) async throws {
        let teller = RowTeller(isAsked: progress)
        @Sendable func numbers() async -> [UInt64] { await teller.numbers(rows.replica) }
        guard let every = repeating.every else {
            return teller.end(
                try await replica.limited(started, progress: numbers) {
                    try await rows.synchronize { teller.tell($0) }
                })
        }
        var complaint: String?
        while !Task.isCancelled {
            var pause = every
            do {
                try await replica.limited(started, progress: numbers) { try await rows.waitForFirstDownload() }
                teller.end(try await rows.pass { teller.tell($0) }, isQuiet: true)
                complaint = nil
            } catch let error where Self.passes(error) {
                if complaint != "\(error)" { StandardError.write("\(error)\n") }
                complaint = "\(error)"
                pause = max(every, min(Self.pauseAfterError, takeOver / 4))
            }
            try await Task.sleep(for: .seconds(pause))
        }
    }

    /// True for an error after which the next pass may succeed.
    private static func passes(_ error: any Error) -> Bool {
        if let error = error as? BridgeError { return [.unreachable, .refused, .heldByOther].contains(error.code) }
        return error is InputError
    }
}
#endif
