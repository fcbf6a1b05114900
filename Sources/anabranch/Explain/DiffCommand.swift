import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser

/// `anabranch diff`: what two versions of a synced file differ in.
struct DiffCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Print what is different between two versions.",
        discussion: """
            For each object that is new (+), erased (-) or changed (~) a line with its class and key, and a line for \
            each property that differs, with the value before and after. Values are as an export has them \
            (Spec/Export.md, section 2). States are made from the log, as `anabranch inspect --at` makes them. \
            Nothing is changed, and a running server keeps serving.

            EXAMPLES
              anabranch diff 41 58 --data ./data --path '/"notes"'
              anabranch diff 41 --data ./data --path '/"notes"'
              anabranch diff 2026-11-24T14:00Z --data ./data --path '/"notes"'
              anabranch diff 2h 1h --data ./data --path '/"notes"'
              anabranch diff 41 58 --data ./data --path '/"notes"' --json | jq .key
            """)

    @Argument(
        help: ArgumentHelp("The older version; 0 is the empty file. \(LogMoment.help)"), transform: LogMoment.parse)
    var older: LogMoment

    @Argument(help: "The newer version, or a time; the newest one if none is given.", transform: LogMoment.parse)
    var newer: LogMoment?

    @OptionGroup var store: StoreOption

    @Option(help: "A synced file, as `anabranch inspect` lists it.")
    var path: String

    @Flag(help: "Print a JSON object for each object that differs.")
    var json = false

    func validate() throws {
        let isReversed =
            switch (older, newer) {
            case (.version(let older), .version(let newer)): newer < older
            case (.time(let older), .time(let newer)): newer < older
            default: false
            }
        if isReversed { throw ValidationError("The older version comes first.") }
    }

    func run() throws { try run { print($0) } }

    /// - Parameter output: takes a line.
    func run(output: (String) -> Void) throws {
        try StoreOption.explainingErrors {
            let file = try store.file(path)
            let before = try file.state(at: older.version(in: file))
            let after = try file.state(at: newer?.version(in: file) ?? file.head.version)
            try after.forEachDifference(since: before) { difference in
                if json { return output(difference.json) }
                for line in difference.lines { output(line) }
            }
        }
    }
}

extension ObjectDifference {
    /// The names of the properties that differ, in order.
    private var names: [[UInt8]] {
        Set((before ?? [:]).keys).union((after ?? [:]).keys).sorted { $0.lexicographicallyPrecedes($1) }
    }

    fileprivate var lines: [String] {
        let sign = before == nil ? "+" : after == nil ? "-" : "~"
        return ["\(sign) \(object.text)"]
            + names.map { name in
                let values = [before?[name], after?[name]].map { $0.map { String(decoding: $0, as: UTF8.self) } }
                let isWhole = before == nil || after == nil
                let text =
                    isWhole
                    ? values[0] ?? values[1] ?? "" : "\(values[0] ?? "nothing") → \(values[1] ?? "nothing")"
                return "    \(String(decoding: name, as: UTF8.self)): \(text)"
            }
    }

    fileprivate var json: String {
        let fields = names.map { name in
            let values = [before?[name], after?[name]].map { $0.map { String(decoding: $0, as: UTF8.self) } ?? "null" }
            return "\(JSONText.quoted(String(decoding: name, as: UTF8.self))):[\(values[0]),\(values[1])]"
        }
        let change = before == nil ? "created" : after == nil ? "erased" : "changed"
        return """
            {"class":\(JSONText.quoted(object.classText)),"key":\(object.keyText),"change":"\(change)",\
            "fields":{\(fields.joined(separator: ","))}}
            """
    }
}
