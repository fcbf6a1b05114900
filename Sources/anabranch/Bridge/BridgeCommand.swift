#if canImport(CLibPQ)
import AnabranchBridge
import AnabranchClient
import AnabranchCore
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch bridge`: tables in PostgreSQL and a synced file are kept equal.
struct BridgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bridge",
        abstract: "Keep tables in PostgreSQL and a synced file equal.",
        discussion: """
            Back-end programs read and write ordinary typed tables, devices the same data as objects. `run` is a \
            client with a replica of its own: it makes objects of rows that triggers have noted, and rows of objects \
            that come from others. The schema `anabranch` holds the notes; `uninstall` removes it. Spec/Bridge.md \
            says which column a property has, and what becomes of which write.

            EXAMPLES
              anabranch bridge init --from-file --data ./replicas \\
                  --path '/"notes"' | psql postgres://localhost/notes
              anabranch bridge install --db postgres://localhost/notes --tables Note
              anabranch bridge run --db postgres://localhost/notes --data ./replicas \\
                  --path '/"notes"' --url ws://127.0.0.1:9090 --every 0.25
              anabranch bridge status --db postgres://localhost/notes
              anabranch bridge uninstall --db postgres://localhost/notes
            """,
        subcommands: [
            BridgeInit.self, BridgeInstall.self, BridgeRun.self, BridgeStatusCommand.self, BridgeCompare.self,
            BridgeUninstall.self,
        ])
}

/// The options that name the database.
struct BridgeOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The database, as `postgres://user@host/name`, or in libpq's words.", valueName: "url"))
    var db: String

    @Option(help: ArgumentHelp("How long the database may take for a statement.", valueName: "seconds"))
    var dbTimeout = 60.0

    func validate() throws {
        guard (0.001...86_400).contains(dbTimeout) else {
            throw ValidationError("--db-timeout must be from 0.001 to 86400.")
        }
    }

    func database() -> BridgeDatabase { BridgeDatabase(db, seconds: dbTimeout) }
}

/// The option that names tables.
struct BridgedTables: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The tables, with commas between them: NAME, SCHEMA.NAME, or NAME=CLASS for a class of another name.",
            valueName: "names"))
    var tables: String?

    var names: [(table: String, className: String?)] {
        (tables ?? "").split(separator: ",").map { part in
            let sides = part.split(separator: "=", maxSplits: 1).map(String.init)
            return (sides[0], sides.count > 1 ? sides[1] : nil)
        }
    }
}

/// `anabranch bridge init`.
struct BridgeInit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Print the tables for a file, or the classes for tables.",
        discussion: """
            With --from-file, the CREATE TABLE statements for the classes of a replica, which `anabranch client read` \
            or an earlier `run` has made: change them as you like, then pass them to psql. With --from-tables, the \
            classes that tables would become, as lines of an export. Nothing is changed.

            A list is an array; with --as-table its elements are rows of a table CLASS_PROPERTY (owner, position, \
            value), which install finds by its name and its foreign key.

            EXAMPLES
              anabranch bridge init --from-file --data ./replicas --path '/"notes"' \\
                  --as-table Note.tags
              anabranch bridge init --from-tables --db postgres://localhost/notes \\
                  --tables note,tag
            """)

    @Flag(help: "Print tables for the classes of a replica.")
    var fromFile = false

    @Flag(help: "Print classes for tables.")
    var fromTables = false

    @Option(help: ArgumentHelp("The database.", valueName: "url"))
    var db: String?

    @OptionGroup var tables: BridgedTables

    @Option(
        help: ArgumentHelp(
            "The lists whose elements are rows of a table, with commas between them.", valueName: "class.property"))
    var asTable: String?

    @Option(help: ArgumentHelp("The folder with the replicas.", valueName: "dir"))
    var data: String?

    @Option(help: ArgumentHelp("What the replica is of, as `my-app/\"notes\"`.", valueName: "path"))
    var path: String?

    func validate() throws {
        guard fromFile != fromTables else { throw ValidationError("Give either --from-file or --from-tables.") }
        guard !fromFile || data != nil && path != nil else {
            throw ValidationError("Which replica? Give --data and --path.")
        }
        guard !fromTables || db != nil && !tables.names.isEmpty else {
            throw ValidationError("Which tables? Give --db and --tables.")
        }
    }

    func run() async throws {
        if fromTables {
            let classes = try BridgeDatabase(db ?? "").classes(for: tables.names.map(\.table))
            for declared in classes { print(declared.json.encoded) }
            return
        }
        let file = try ClientTarget(path ?? "").file(in: URL(fileURLWithPath: data ?? "", isDirectory: true))
        let (sql, omitted) = BridgeSchema.sql(
            for: try ReplicaReader(path: file).snapshot().state.exportedClasses,
            lists: (asTable ?? "").split(separator: ",").map(String.init))
        print(sql, terminator: "")
        for note in omitted { StandardError.write("note: \(note)\n") }
    }
}

/// `anabranch bridge install`.
struct BridgeInstall: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "install",
        abstract: "Install triggers and the schema anabranch.",
        discussion: """
            If a table cannot be bridged, the command says which and why, and changes nothing. The rows that are there \
            are noted in transactions of 10,000, beside the writes of others; when it is interrupted, the same command \
            goes on. More tables can be added later. The role needs the rights to create a schema and triggers.

            EXAMPLES
              anabranch bridge install --db postgres://localhost/notes --tables note,tag
              anabranch bridge install --db postgres://localhost/shop \\
                  --tables sales.orders=Order
            """)

    @OptionGroup var options: BridgeOptions
    @OptionGroup var tables: BridgedTables

    @Flag(help: "Print progress where there is no terminal.")
    var progress = false

    func validate() throws {
        guard !tables.names.isEmpty else { throw ValidationError("Which tables? Give --tables.") }
    }

    func run() async throws {
        var line = ProgressLine(isAsked: progress), count = 0
        let notes = try options.database().install(tables.names) { rows in
            count = rows
            line.tell { "\(counted(rows, "row")) noted" }
        }
        line.end()
        for note in notes { StandardError.write("note: \(note)\n") }
        print("\(counted(tables.names.count, "table")) bridged, \(counted(count, "row")) noted")
    }
}

/// `anabranch bridge uninstall`.
struct BridgeUninstall: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "uninstall",
        abstract: "Remove triggers and the schema anabranch.",
        discussion: """
            The tables stay as they are. What was not uploaded is not uploaded any more. With --tables only these are \
            not bridged any more, as when one was dropped or renamed.

            EXAMPLES
              anabranch bridge uninstall --db postgres://localhost/notes
              anabranch bridge uninstall --db postgres://localhost/notes --tables tag
            """)

    @OptionGroup var options: BridgeOptions
    @OptionGroup var tables: BridgedTables

    func run() async throws {
        try options.database().uninstall(tables.tables == nil ? nil : tables.names.map(\.table))
    }
}
#endif
