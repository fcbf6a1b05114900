import AnabranchCapture
import ArgumentParser
import CommandSupport

/// `anabranch capture`: the rows of an application's own SQLite database are synced.
struct CaptureCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "capture",
        abstract: "Sync the tables of an existing SQLite database.",
        discussion: """
            Triggers note which rows an application changes, and `run` makes objects of these rows and rows of the \
            objects that come from others. The application goes on writing its database as it always has, with any \
            library and at any time. Tables whose names begin with sync_ hold the notes and the identities of rows; \
            `uninstall` removes all of it. Spec/Capture.md says what becomes of which write.

            EXAMPLES
              anabranch capture install --db app.sqlite --tables note,tag
              anabranch capture run --db app.sqlite --data ./replicas \\
                  --path '/"notes"' --url ws://127.0.0.1:9090 --every 2
              anabranch capture status --db app.sqlite
              anabranch capture pause --db app.sqlite && ./migrate && \\
                  anabranch capture resume --db app.sqlite
              anabranch capture uninstall --db app.sqlite
            """,
        subcommands: [
            CaptureInstall.self, CaptureRun.self, CaptureStatusCommand.self, CaptureCompare.self, CapturePause.self,
            CaptureResume.self, CaptureUninstall.self,
        ])
}

/// The option that names the database.
struct CaptureOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The application's database.", valueName: "file"))
    var db: String

    func database() throws -> CapturedDatabase { try CapturedDatabase(path: db) }
}

/// `anabranch capture install`.
struct CaptureInstall: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "install",
        abstract: "Install triggers and side tables.",
        discussion: """
            Without --tables all tables are captured. If one cannot be, the command says which and why, and changes \
            nothing. The rows that are there are noted in transactions of 10,000, beside the application's own writes; \
            when it is interrupted, the same command goes on. More tables can be added later.

            --rules is a file with a JSON object of tables. "push" and "pull" list actions of insert, update and \
            delete; "filter" is a condition in SQL for the rows that are synced; "dates" gives the form of times by \
            column: text, rfc3339, unix, unix-ms or julian; "references" gives the table that a column has keys of, \
            where no foreign key says so; "guid" names a column that is added, and has the key of each row's object; \
            "match" lists the columns that tell which record a row is. By them rows that were there before the first \
            `run` are matched with objects that the file has already, as those of another device or of a lost \
            database; else they become new objects, and are doubled. `run --dry-run` shows what would be matched. \
            Where rows of two devices have one unique value, the later one waits, unless \
            a rule names a column of the constraint: "suffix" adds ` (2)` to its text, "null" makes it null, and \
            "newest" deletes the row that was made earlier.

            EXAMPLES
              anabranch capture install --db app.sqlite
              anabranch capture install --db app.sqlite --tables note,tag \\
                  --rules rules.json
              echo '{"note": {"filter": "draft = 0", "dates": {"at": "unix"}}}' \\
                  > rules.json
              echo '{"person": {"match": ["email"]}}' > rules.json
            """)

    @OptionGroup var options: CaptureOptions

    @Option(help: ArgumentHelp("The tables, with commas between them.", valueName: "names"))
    var tables: String?

    @Option(help: ArgumentHelp("The rules of tables.", valueName: "file"))
    var rules: String?

    @Flag(help: "Print progress where there is no terminal.")
    var progress = false

    func run() async throws {
        let rules = try rules.map { try TableRule.rules(inJSON: Array(TextInput.text(ofFile: $0).utf8)) } ?? [:]
        let database = try options.database()
        let names = try tables.map { $0.split(separator: ",").map(String.init) } ?? database.tableNames()
        guard !names.isEmpty else { throw InputError(description: "\(options.db): there are no tables") }
        var line = ProgressLine(isAsked: progress), count = 0
        let notes = try database.install(names, rules: rules) { rows in
            count = rows
            line.tell { "\(counted(rows, "row")) noted" }
        }
        line.end()
        for note in notes { StandardError.write("note: \(note)\n") }
        print("\(counted(names.count, "table")) captured, \(counted(count, "row")) noted")
    }
}

/// `anabranch capture pause`.
struct CapturePause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Drop the triggers, for a change of the schema.",
        discussion: """
            Identities stay. `run` waits until `resume`, which makes the triggers again; then rows are compared with \
            their known content, so that rows written during the pause are synced as well.

            EXAMPLES
              anabranch capture pause --db app.sqlite
              sqlite3 app.sqlite 'ALTER TABLE note DROP COLUMN mark'
              anabranch capture resume --db app.sqlite
            """)

    @OptionGroup var options: CaptureOptions

    func run() async throws { try options.database().pause() }
}

/// `anabranch capture resume`.
struct CaptureResume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Install the triggers again after a pause.",
        discussion: """
            EXAMPLES
              anabranch capture resume --db app.sqlite
            """)

    @OptionGroup var options: CaptureOptions

    func run() async throws { try options.database().resume() }
}

/// `anabranch capture uninstall`.
struct CaptureUninstall: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "uninstall",
        abstract: "Remove triggers and side tables.",
        discussion: """
            The database has the schema that it had before. What was not uploaded is not uploaded any more, and the \
            identities of rows are gone: when they are installed again, the rows are new ones unless the rule "match" \
            says which they are. With --tables only these are not captured any more, as when the application has \
            dropped or renamed one.

            EXAMPLES
              anabranch capture uninstall --db app.sqlite
              anabranch capture uninstall --db app.sqlite --tables tag
            """)

    @OptionGroup var options: CaptureOptions

    @Option(help: ArgumentHelp("The tables, with commas between them.", valueName: "names"))
    var tables: String?

    func run() async throws {
        if let tables {
            try options.database().uninstall(tables.split(separator: ",").map(String.init))
        } else {
            try options.database().uninstall()
        }
    }
}
