#if canImport(CLibPQ)
import AnabranchBridge
import AnabranchClient
import AnabranchCore
import ArgumentParser
import CommandSupport
import Foundation

extension BridgeProgress: RowProgress {}

/// `anabranch bridge status`.
struct BridgeStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Say how far a database is bridged.",
        discussion: """
            The tables with their rows, the process that has the bridge, the changes that are not collected or not \
            acknowledged and the age of the oldest one, and the objects whose rows could not be written, with the \
            reasons of the database.

            EXAMPLES
              anabranch bridge status --db postgres://localhost/notes
              anabranch bridge status --db postgres://localhost/notes --json \\
                  | jq .lag_seconds
            """)

    @OptionGroup var options: BridgeOptions

    @Flag(help: "Print a JSON object.")
    var json = false

    func run() async throws {
        let status = try options.database().status()
        print(json ? Self.json(status).encoded : Self.text(status))
    }

    private static func json(_ status: BridgeStatus) -> JSONValue {
        func number(_ count: Int) -> JSONValue { .integer(Int64(count)) }
        return [
            "tables": .array(
                status.tables.map { table in
                    [
                        "name": .string(table.name), "class": .string(table.className), "rows": number(table.rows),
                        "triggers": .bool(table.hasTriggers),
                    ]
                }),
            "holder": status.holder.map { .string($0) } ?? .null, "silent_seconds": .real(status.silentSeconds),
            "uncollected": number(status.uncollected), "lag_seconds": .real(status.lagSeconds),
            "unacknowledged": number(status.unacknowledged), "waiting": number(status.waitingCount),
            "waiting_objects": .array(
                status.waiting.map { object in
                    [
                        "class": .string(object.className), "key": .string(object.key),
                        "reason": .string(object.reason),
                    ]
                }),
            "conflicts": number(status.conflicts),
        ]
    }

    private static func text(_ status: BridgeStatus) -> String {
        var lines = status.tables.map { table in
            "table \(table.name), class \(table.className): \(counted(table.rows, "row"))"
                + (table.hasTriggers ? "" : "; its triggers are missing")
        }
        let lag = status.uncollected > 0 ? ", the first \(Int(status.lagSeconds)) s ago" : ""
        lines += [
            status.holder.map { "\($0) has the bridge, and gave a sign \(Int(status.silentSeconds)) s ago" }
                ?? "nobody has the bridge",
            "\(counted(status.uncollected, "change")) not collected\(lag), \(status.unacknowledged) not acknowledged",
            "\(counted(status.waitingCount, "object")) waiting, \(counted(status.conflicts, "value")) given up",
        ]
        return (lines + status.waiting.map { "  \($0.className) \($0.key): \($0.reason)" }).joined(separator: "\n")
    }
}

/// `anabranch bridge compare`.
struct BridgeCompare: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare",
        abstract: "Compare each row with its object.",
        discussion: """
            Prints a line for each difference, and says how many objects were compared; the exit status is 1 if there \
            are differences. Rows with changes that `run` has not collected are passed over. It reads the replica that \
            `run` writes, beside it. With --repair the next pass of `run` sends what rows have that no trigger has \
            seen, and erases the objects of rows that are gone.

            EXAMPLES
              anabranch bridge compare --db postgres://localhost/notes \\
                  --data ./replicas --path '/"notes"'
              anabranch bridge compare --db postgres://localhost/notes \\
                  --data ./replicas --path '/"notes"' --repair
            """)

    @OptionGroup var options: BridgeOptions

    @OptionGroup var comparing: ComparingOptions

    func run() async throws {
        let database = options.database()
        try comparing.report("object", database.compare(with:_:), repairing: database.repairAtNextPass)
    }
}
#endif
