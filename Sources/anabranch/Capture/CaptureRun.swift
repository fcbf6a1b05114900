import AnabranchCapture
import AnabranchClient
import ArgumentParser
import CommandSupport
import Foundation
import UnixSignals

/// `anabranch capture run`.
struct CaptureRun: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Send changed rows, and write what others have sent.",
        discussion: """
            Once, or with --every or --on-change until SIGINT or SIGTERM. The replica below --data keeps what is not \
            uploaded yet, so that a server that cannot be reached is no error then. --on-change notices changes within \
            a tenth of a second, and looks for what no trigger has seen every five seconds, or as --every says. The \
            database is locked for the time of one batch only, and the process can be killed at any time. While \
            capture is paused, it waits. One process at a time can have the replica; keep the replica with the \
            database, and never copy one of them alone.

            Before rows that were there get objects, those are looked for that are there as well, by the columns of \
            the rule "match" (see `install`). --dry-run says which rows would be matched, and changes nothing in the \
            database: for each table the counts, a line for each of the first hundred pairs with the columns that \
            differ, and the values that several rows or objects have, so that none of them is matched. Where both \
            have a value the object's counts, or with --rows-win the row's; the other is kept in sync_conflict. In a \
            database from a backup --rows-win is for all rows, and a row comes back whose object was erased since.

            --path, --url and the log-in are those of `anabranch client`.

            EXAMPLES
              anabranch capture run --db app.sqlite --data ./replicas \\
                  --path '/"notes"' --url ws://127.0.0.1:9090 --dry-run
              anabranch capture run --db app.sqlite --data ./replicas \\
                  --path '/"notes"' --url ws://127.0.0.1:9090
              anabranch capture run --db app.sqlite --data ./replicas \\
                  --path my-app --url wss://sync.example.com --every 60 --on-change
            """)

    @OptionGroup var capture: CaptureOptions
    @OptionGroup var options: ClientOptions

    @OptionGroup var repeating: RepeatingOptions

    /// The longest time between two passes with --on-change alone, in seconds.
    private static let longestWait = 5.0

    @Flag(help: "Go on, with a pass whenever rows or objects have changed.")
    var onChange = false

    @Flag(help: "Say which rows would be matched with which objects, and change nothing in the database.")
    var dryRun = false

    @Flag(help: "Of a matched row, or one of a restored database, and its object, take the row's values.")
    var rowsWin = false

    @Flag(help: "Print progress where there is no terminal.")
    var progress = false

    func validate() throws {
        guard options.url != nil else { throw ValidationError("Nothing is synced without a server: give --url.") }
        if dryRun, repeating.every != nil || onChange {
            throw ValidationError("--dry-run looks once: leave --every and --on-change out.")
        }
    }

    func run() async throws {
        RowMemory.keepOneHeap()
        RowMemory.forgetCode()
        // A signal ends the wait for a database that is locked: nothing has begun.
        let rows = try await open()
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
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

    /// The pause between two passes, in seconds; nil if there is one pass only.
    private var pause: Double? { repeating.every ?? (onChange ? Self.longestWait : nil) }

    /// Opens the database and the replica; if there are to be many passes, as soon as others let that happen.
    private func open() async throws -> RowCapture {
        var complaint: String?
        while true {
            do {
                return try RowCapture(database: capture.db, replica: try options.fileInFolder(), rowsWin: rowsWin)
            } catch let error as CaptureError where [.locked, .paused].contains(error.code) {
                guard let pause else { throw error }
                if complaint != "\(error)" { StandardError.write("\(error); waiting\n") }
                complaint = "\(error)"
                try await Task.sleep(for: .seconds(pause))
            }
        }
    }

    private func exchange(_ rows: RowCapture, _ replica: ClientReplica, _ started: StartedClient) async throws {
        let teller = RowTeller(isAsked: progress)
        @Sendable func numbers() async -> [UInt64] { await teller.numbers(rows.replica) }
        if dryRun {
            let tables = try await replica.limited(started, progress: numbers) { try await rows.matches() }
            for table in tables { print(table.text(withPairs: true)) }
            if tables.isEmpty { print("nothing to match: no rule has 'match', or the file has no such class") }
            return
        }
        func synchronize() async throws -> CaptureProgress {
            try await replica.limited(started, progress: numbers) { try await rows.synchronize { teller.tell($0) } }
        }
        guard let pause else {
            return teller.end(try await synchronize())
        }
        var complaint: String?
        while !Task.isCancelled {
            do {
                teller.end(try await synchronize(), isQuiet: true)
                complaint = nil
                if onChange {
                    try await rows.waitForChange(atMost: .seconds(pause))
                    continue
                }
            } catch let error where Self.passes(error) {
                if complaint != "\(error)" { StandardError.write("\(error)\n") }
                complaint = "\(error)"
            }
            try await Task.sleep(for: .seconds(pause))
        }
    }

    /// True for an error after which the next pass may succeed.
    private static func passes(_ error: any Error) -> Bool {
        if let error = error as? CaptureError { return [.paused, .locked, .unreadable].contains(error.code) }
        return error is InputError
    }
}
