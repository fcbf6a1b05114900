import AnabranchCore
import ArgumentParser
import CommandSupport

/// `anabranch admin simperium`: questions to the clients of Simperium's wire that are connected.
struct AdminSimperium: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simperium", abstract: "Ask connected Simperium clients what they have, and what they do.",
        discussion: """
            `index` asks every channel of a user for its copies, and shows where they differ from the server's: \
            entities of another version, entities that the server has no more (GONE), and those that the client lacks \
            (MISSING). Android and iOS answer; node and browsers know no such question. --json names the entities, up \
            to 100 of each kind.

            `log` shows what clients have told of their doings. They tell it from --level normal or verbose on, until \
            --level off, or until all of the user's clients have gone; the last 200 lines are kept.

            EXAMPLES
              anabranch admin simperium index --data ./data \\
                  'my-app/"simperium/5f0c2d9e8b7a6c5d4e3f2a1b"'
              anabranch admin simperium log 'my-app/"simperium/5f0c2d9e8b7a6c5d4e3f2a1b"' \\
                  --level verbose --data ./data
            """)

    enum Action: String, CaseIterable, ExpressibleByArgument {
        case index, log
    }

    enum Level: String, CaseIterable, ExpressibleByArgument {
        case off, normal, verbose
    }

    @OptionGroup var options: AdminOptions
    @Argument(help: "What to ask for.")
    var action: Action
    @Argument(help: "The synced file of the user, as `admin files` shows it.")
    var file: String
    @Option(help: "For how many seconds `index` waits for answers, 1 to 20. (default: 5)")
    var seconds: Int?
    @Option(help: "With `log`: how much clients tell from now on.")
    var level: Level?

    func validate() throws {
        guard (1...20).contains(seconds ?? 5) else { throw ValidationError("--seconds must be 1 to 20.") }
        guard seconds == nil || action == .index else { throw ValidationError("--seconds is for `index`.") }
        guard level == nil || action == .log else { throw ValidationError("--level is for `log`.") }
    }

    func run() async throws {
        var request: [String: JSONValue] = [
            "door": "simperium", "action": .string(action.rawValue), "path": .string(file),
        ]
        if let seconds { request["seconds"] = .integer(Int64(seconds)) }
        if let level { request["level"] = .integer(Int64(Level.allCases.firstIndex(of: level) ?? 0)) }
        try await options.run { [request] client in
            let answer = try await client.post("/v1/doors/act", JSONValue.object(request))
            guard !options.json, let told = try? JSONValue(parsing: Array(answer)) else { return show(answer) }
            if let level { return print("clients' logs: \(level.rawValue)") }
            switch action {
            case .index: print(Self.indexes(told), terminator: "")
            case .log: for line in told["lines"]?.array ?? [] { print(line.string ?? "") }
            }
        }
    }

    private static func indexes(_ told: JSONValue) -> String {
        let rows = (told["channels"]?.array ?? []).map { channel in
            ["bucket", "clientid", "library"].map { channel[$0]?.string ?? "-" }
                + ["entities", "pending", "other_count", "gone_count", "missing_count"].map { name in
                    channel[name]?.integer.map { "\($0)" } ?? "-"
                }
        }
        let columns = ["BUCKET", "CLIENT", "LIBRARY", "ENTITIES", "PENDING", "OTHER VERSION", "GONE", "MISSING"]
        return "\(TextTable(columns: columns, rows: rows))"
    }
}
