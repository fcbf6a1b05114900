import AnabranchCore
import AnabranchTesting
import ArgumentParser
import Foundation

struct ReplayTraceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trace",
        abstract: "Replay a recorded history of collaborative editing through clients and a server in memory.",
        discussion: """
            The document is a list of one-character strings in one object. The history is replayed as it was recorded, \
            where the text must end as recorded, and with all users off line to the end. At the end all clients and \
            the server's log must have the same state. Times are of everything: local transactions, merges on both \
            sides, and applying.

            EXAMPLES
              anabranch-lab replay trace friendsforever.json.gz
              anabranch-lab replay trace friendsforever.json.gz --pairwise
            """)

    @Argument(help: "The trace: gzip of one JSON object with numAgents, endContent and txns.")
    var trace: String

    @Flag(help: "Replay everything once more, visiting every pair of instructions instead of using an index.")
    var pairwise = false

    func run() throws {
        let content = try Trace.read(trace)
        do {
            try replay(content)
        } catch {
            throw InputError(description: "\(trace): \(error)")
        }
    }

    private func replay(_ trace: Trace) throws {
        let schedule = try TraceSchedule(of: trace)
        for isOffline in [false, true] {
            for strategy in pairwise ? [MergeStrategy.indexed, .everyPair] : [.indexed] {
                var replay = try TraceReplay(trace, strategy: strategy)
                let time = try ContinuousClock().measure {
                    if isOffline { try replay.stayOffline() } else { try replay.follow(schedule) }
                }
                let name = (isOffline ? "off line, " : "followed, ") + (strategy == .indexed ? "indexed" : "pairwise")
                try check(replay, against: isOffline ? nil : trace.endContent, name)
                print(
                    name
                        + String(
                            format: ": %ld transactions in %.2f s, %.0f a second", trace.txns.count, time.inSeconds,
                            Double(trace.txns.count) / time.inSeconds))
                fflush(nil)
            }
        }
    }

    private func check(_ replay: TraceReplay, against endContent: String?, _ name: String) throws {
        let states = try replay.states()
        guard states.allSatisfy({ $0 == states.first }) else {
            throw InputError(description: "\(name): the states at the end differ")
        }
        guard let endContent else { return }
        guard try replay.texts().allSatisfy({ $0.utf8.elementsEqual(endContent.utf8) }) else {
            throw InputError(description: "\(name): the text does not end as recorded")
        }
    }
}
