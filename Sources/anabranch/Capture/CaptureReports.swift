import AnabranchCapture
import AnabranchClient
import AnabranchCore
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch capture status`.
struct CaptureStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Say how far a database is synced.",
        discussion: """
            The tables with their rows, the changes that are not collected or not acknowledged, the objects whose rows \
            could not be written, with the reasons, and the number of values that were given up.

            EXAMPLES
              anabranch capture status --db app.sqlite
              anabranch capture status --db app.sqlite --json | jq .waiting
            """)

    @OptionGroup var options: CaptureOptions

    @Flag(help: "Print a JSON object.")
    var json = false

    func run() async throws {
        let status = try options.database().status()
        print(json ? Self.json(status).encoded : Self.text(status))
    }

    private static func json(_ status: CaptureStatus) -> JSONValue {
        func number(_ count: Int) -> JSONValue { .integer(Int64(count)) }
        return [
            "tables": .array(
                status.tables.map { table in
                    [
                        "name": .string(table.name), "rows": number(table.rows), "objects": number(table.objects),
                        "triggers": .bool(table.hasTriggers), "fault": table.fault.map { .string($0) } ?? .null,
                    ]
                }),
            "paused": .bool(status.isPaused), "uncollected": number(status.uncollected),
            "unacknowledged": number(status.unacknowledged), "waiting": number(status.waitingCount),
            "waiting_objects": .array(
                status.waiting.map { object in
                    [
                        "table": .string(object.table), "object": .string(object.object),
                        "reason": .string(object.reason),
                    ]
                }),
            "conflicts": number(status.conflicts),
        ]
    }

    private static func text(_ status: CaptureStatus) -> String {
        var lines = status.tables.map { table in
            let state = table.fault.map { "; \($0)" } ?? (table.hasTriggers ? "" : "; its triggers are missing")
            return "table \(table.name): \(counted(table.rows, "row")), \(table.objects) with an object"
                + (status.isPaused ? "" : state)
        }
        if status.isPaused { lines.append("paused") }
        lines += [
            "\(counted(status.uncollected, "change")) not collected, \(status.unacknowledged) not acknowledged",
            "\(counted(status.waitingCount, "object")) waiting, \(counted(status.conflicts, "value")) given up",
        ]
        return (lines + status.waiting.map { "  \($0.table) \($0.object): \($0.reason)" }).joined(separator: "\n")
    }
}

extension CaptureMatches {
    func text(withPairs: Bool) -> String {
        let sums = [
            "\(counted(count, "row")) matched, \(differentCount) with differences",
            "\(counted(rows, "row")) and \(counted(objects, "object")) alone", "\(ambiguousCount) ambiguous",
        ]
        let shown = (withPairs ? pairs : []).map { pair in
            let different = pair.different.isEmpty ? "" : ": different \(pair.different.joined(separator: ", "))"
            return "  \(pair.key) = \(pair.object)\(different)"
        }
        let left = ambiguous.map { values in
            "  ambiguous: \(values.values): \(counted(values.rows, "row")), \(counted(values.objects, "object"))"
        }
        let first = "table \(table), by \(columns.joined(separator: ", ")): \(sums.joined(separator: "; "))"
        return ([first] + shown + left).joined(separator: "\n")
    }
}

/// `anabranch capture compare`.
struct CaptureCompare: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare",
        abstract: "Compare each row with its object.",
        discussion: """
            Prints a line for each difference, and says how many rows were compared; the exit status is 1 if there are \
            differences. Rows with changes that `run` has not collected are passed over. It reads the replica that \
            `run` writes, beside it. With --repair the next pass of `run` sends what rows have that no trigger has \
            seen, and writes what they lack.

            EXAMPLES
              anabranch capture compare --db app.sqlite --data ./replicas \\
                  --path '/"notes"'
              anabranch capture compare --db app.sqlite --data ./replicas \\
                  --path '/"notes"' --repair
            """)

    @OptionGroup var options: CaptureOptions

    @OptionGroup var comparing: ComparingOptions

    func run() async throws {
        let database = try options.database()
        try comparing.report("row", database.compare(with:_:), repairing: database.repairAtNextPass)
    }
}
