import AnabranchBridge
import AnabranchCapture
import AnabranchClient
import AnabranchFiles
import AnabranchHistory
import AnabranchOverTheAirDevice
import AnabranchReplica
import ArgumentParser
import CommandSupport

@main
struct Anabranch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "anabranch",
        abstract: "A sync server for Realm clients.",
        discussion: """
            EXAMPLES
              anabranch serve --dev --data ./data --listen 127.0.0.1:9090
              anabranch admin users add --data ./data --app my-app --email ann@example.com
              anabranch import Task.json --data ./data --path my-app --class Task
              anabranch backup --data ./data --to ./backup-monday
            """,
        version: BuildInfo.text(of: "anabranch"),
        groupedSubcommands: [
            CommandGroup(
                name: "Server",
                subcommands: [ServeCommand.self, AdminCommand.self, ConfigCommand.self, KeyCommand.self]),
            CommandGroup(
                name: "Data",
                subcommands: [
                    BackupCommand.self, RestoreCommand.self, VerifyCommand.self, RepairCommand.self,
                    MergeFilesCommand.self, StoreCommand.self, ExportCommand.self, ImportCommand.self,
                    RealmFileCommand.self,
                    InspectCommand.self, LogCommand.self, ShowCommand.self, ExplainCommand.self, BlameCommand.self,
                    DiffCommand.self, RestoreValueCommand.self, ChangesetCommand.self,
                ]),
            CommandGroup(
                name: "Client",
                subcommands: [
                    ClientCommand.self, CaptureCommand.self, FilesCommand.self, OverTheAirCommand.self,
                ] + bridges),
        ])

    /// The commands that are there if the package was built with the trait `Postgres`.
    private static var bridges: [any ParsableCommand.Type] {
        #if canImport(CLibPQ)
        [BridgeCommand.self]
        #else
        []
        #endif
    }

    private static func bridgeReason(_ error: any Error) -> String? {
        #if canImport(CLibPQ)
        (error as? BridgeError)?.description
        #else
        nil
        #endif
    }

    static func main() async {
        await runProgram(moved: moved, hints: optionHints) { error in
            switch error {
            case let error as HistoryError: (error.reason, .failure)
            case let error as AccountError: (error.reason, .failure)
            case let error as ReplicaError: (error.reason, .failure)
            case let error as SyncError: (error.reason, .failure)
            case let error as AppError: (error.reason, .failure)
            case let error as CaptureError: (error.description, .failure)
            case let error as SpaceError: (error.description, .failure)
            case let error as FileIssue: (error.description, .failure)
            case let error as DeviceError: (error.description, .failure)
            case let error as InputError: (error.description, .failure)
            case let error as OutputError: (error.description, .failure)
            case let error as ConfigurationError: (error.description, .validationFailure)
            default: bridgeReason(error).map { ($0, .failure) }
            }
        }
    }

    /// Options that other programs have, and files without their option, with how it is done here.
    static let optionHints = [
        "--port": "address and port are one option: --listen 127.0.0.1:8080",
        "--host": "address and port are one option: --listen 127.0.0.1:8080",
        "--bind": "address and port are one option: --listen 127.0.0.1:8080",
        "--password": """
        other users of the machine see what is in a command line; give --password-file FILE, where - is the \
        standard input, or none and be asked
        """,
        "--partition": "a partition is a part of --path: 'my-app/\"PARTITION\"'",
        "--user": "users are named by --email ADDRESS, or by their ident as --help says",
        "--db": "the data directory is --data DIR", "--database": "the data directory is --data DIR",
        "--verbose": "how much is logged is --log-level debug, of serve",
        ".yaml": "a configuration file is named by --config FILE",
        ".yml": "a configuration file is named by --config FILE",
    ]

    /// The commands of `anabranch-lab` by the names that they formerly had here. For one release these names say so.
    static let moved = [
        "vectors": "check vectors", "diff-merge": "fuzz merge", "converge": "fuzz convergence",
        "trace": "replay trace", "merge": "merge", "cases": "bench cases", "bench": "bench merge",
        "bench-server": "bench server", "bench-apply": "bench apply",
    ].mapValues { "anabranch-lab \($0)" }
}
