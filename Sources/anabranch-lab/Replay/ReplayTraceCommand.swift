import AnabranchCore
import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation

struct ReplayTraceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trace",
        abstract: "Replay a recorded history of collaborative editing through clients and a server in memory.",
        discussion: """
            The document is a list of one-character strings in one object. The history is replayed as it was recorded, \
            where the text must end as recorded, and with all users offline to the end. If the exchanges do not fit \
            one server between them, as where people wrote for days without a network, only the latter is done, and \
            standard error says so. At the end all clients and \
            the server's log must have the same state. Times are of everything: local transactions, merges on both \
            sides, and applying. If the text or the states are not as they have to be, the exit status is 1.

            EXAMPLES
              anabranch-lab replay trace friendsforever.json.gz
              anabranch-lab replay trace friendsforever.json.gz --pairwise
              anabranch-lab replay trace friendsforever.json.gz --json | jq .seconds
            """)

    @Argument(help: "The trace: gzip of one JSON object with numAgents, endContent and txns.")
    var trace: String

    @Flag(help: "Replay everything once more, visiting every pair of instructions instead of using an index.")
    var pairwise = false

    @Flag(help: "Print a JSON object for each replay.")
    var json = false

    func run() throws {
        let content = try Trace.read(trace)
        do {
            try replay(content)
        } catch let exit as ExitCode {
            throw exit
        } catch {
            throw InputError(description: "\(trace): \(error)")
        }
    }

    private func replay(_ trace: Trace) throws {
        let schedule = schedule(of: trace)
        for isOffline in schedule == nil ? [true] : [false, true] {
            for strategy in pairwise ? [MergeStrategy.indexed, .everyPair] : [.indexed] {
                var replay = try TraceReplay(trace, strategy: strategy)
                let time = try ContinuousClock().measure {
                    if !isOffline, let schedule { try replay.follow(schedule) } else { try replay.stayOffline() }
                }
                let outcome = TraceOutcome(
                    trace: name, replay: isOffline ? "offline" : "followed",
                    strategy: strategy == .indexed ? "indexed" : "pairwise", transactions: trace.txns.count,
                    seconds: time.inSeconds, isStateEqual: try replay.isStateEqual(),
                    endsAsRecorded: isOffline ? nil : try replay.texts().allSatisfy { $0 == trace.endContent })
                print(json ? try outcome.jsonLine() : outcome.text)
                fflush(nil)
                guard outcome.isGood else { throw ExitCode.failure }
            }
        }
    }

    /// The exchanges with the server; nil, with a line on standard error, if one server cannot have made them.
    private func schedule(of trace: Trace) -> TraceSchedule? {
        do {
            return try TraceSchedule(of: trace)
        } catch {
            StandardError.write("\(name): cannot be followed, and so is only replayed offline: \(error)\n")
            return nil
        }
    }

    /// The name of the file, without the endings that say how it is stored.
    private var name: String {
        let file = URL(fileURLWithPath: trace).lastPathComponent
        return file.split(separator: ".").first.map(String.init) ?? file
    }
}

/// The outcome of a replay.
private struct TraceOutcome: Encodable {
    var trace: String
    var replay: String
    var strategy: String
    var transactions: Int
    var seconds: Double
    /// True if the states of all clients, of the server and of its log are equal.
    var isStateEqual: Bool
    /// True if the text of every client is the recorded one; nil if there is none to compare it with.
    var endsAsRecorded: Bool?

    private enum CodingKeys: String, CodingKey {
        case trace, replay, strategy, transactions, seconds
        case isStateEqual = "states_equal"
        case endsAsRecorded = "text_ends_as_recorded"
    }

    var isGood: Bool { isStateEqual && endsAsRecorded != false }

    var text: String {
        func word(_ isTrue: Bool) -> String { isTrue ? "yes" : "NO" }
        let end = endsAsRecorded.map { "; text ends as recorded: \(word($0))" } ?? ""
        return "\(trace), \(replay), \(strategy): "
            + String(
                format: "%ld transactions in %.2f s, %.0f a second", transactions, seconds,
                Double(transactions) / seconds)
            + "; all states equal: \(word(isStateEqual))\(end)"
    }
}
