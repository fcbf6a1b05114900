import AnabranchCapture
import AnabranchClient
import ArgumentParser
import CommandSupport
import Foundation
import Synchronization
import UnixSignals

/// `anabranch capture run`.
struct CaptureRun: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Send changed rows, and write what others have sent.",
        discussion: """
            Once, or with --every until SIGINT or SIGTERM. The replica below --data keeps what is not uploaded yet, so \
            with --every a server that cannot be reached is no error. The database is locked for the time of one batch \
            only, and the process can be killed at any time. While capture is paused, it waits. One process at a time \
            can have the replica; keep the replica with the database, and never copy one of them alone.

            --path, --url and the log-in are those of `anabranch client`.

            EXAMPLES
              anabranch capture run --db app.sqlite --data ./replicas \\
                  --path '/"notes"' --url ws://127.0.0.1:9090
              anabranch capture run --db app.sqlite --data ./replicas \\
                  --path my-app --url wss://sync.example.com --every 2
            """)

    @OptionGroup var capture: CaptureOptions
    @OptionGroup var options: ClientOptions

    @Option(help: ArgumentHelp("Go on, with this time between two passes.", valueName: "seconds"))
    var every: Double?

    @Flag(help: "Print progress where there is no terminal.")
    var progress = false

    private static let secondsMax = 86_400.0

    func validate() throws {
        guard options.url != nil else { throw ValidationError("Nothing is synced without a server: give --url.") }
        if let every {
            guard (0.01...Self.secondsMax).contains(every) else {
                throw ValidationError("--every must be from 0.01 to 86400.")
            }
        }
    }

    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        let rows = try RowCapture(database: capture.db, replica: try options.fileInFolder())
        try await options.telling(rows.replica) { replica in
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

    private func exchange(_ rows: RowCapture, _ replica: ClientReplica, _ started: StartedClient) async throws {
        let teller = CaptureTeller(isAsked: progress)
        @Sendable func numbers() async -> [UInt64] {
            let record = await rows.replica.record
            return [
                record.version.rawValue, record.progress.upload.clientVersion.rawValue,
                record.progress.cursor.serverVersion.rawValue, teller.count,
            ]
        }
        func synchronize() async throws -> CaptureProgress {
            try await replica.limited(started, progress: numbers) { try await rows.synchronize { teller.tell($0) } }
        }
        guard let every else { return teller.end(try await synchronize()) }
        var complaint: String?
        while !Task.isCancelled {
            do {
                teller.end(try await synchronize(), isQuiet: true)
                complaint = nil
            } catch let error where Self.passes(error) {
                if complaint != "\(error)" { StandardError.write("\(error)\n") }
                complaint = "\(error)"
            }
            try await Task.sleep(for: .seconds(every))
        }
    }

    /// True for an error after which the next pass may succeed.
    private static func passes(_ error: any Error) -> Bool {
        if let error = error as? CaptureError { return error.code == .paused || error.code == .unreadable }
        return error is InputError
    }
}

/// Says what was done.
private final class CaptureTeller: Sendable {
    private struct State {
        var line: ProgressLine
        var count: UInt64 = 0
    }

    private let state: Mutex<State>

    init(isAsked: Bool) { state = Mutex(State(line: ProgressLine(isAsked: isAsked))) }

    /// The number of reports.
    var count: UInt64 { state.withLock { $0.count } }

    func tell(_ progress: CaptureProgress) {
        state.withLock { state in
            state.count += 1
            state.line.tell { Self.text(progress) }
        }
    }

    /// - Parameter isQuiet: true if nothing is said of a pass without changes.
    func end(_ total: CaptureProgress, isQuiet: Bool = false) {
        state.withLock { $0.line.end() }
        for table in total.renewedTables {
            StandardError.write("table \(table): its triggers were missing; all rows were compared\n")
        }
        if total.isUnstable { StandardError.write("triggers of the application change rows without end\n") }
        if isQuiet, total.isEmpty { return }
        print(Self.text(total))
        fflush(nil)
    }

    private static func text(_ progress: CaptureProgress) -> String {
        "\(progress.collected) collected, \(progress.applied) applied, \(progress.waiting) waiting"
    }
}
