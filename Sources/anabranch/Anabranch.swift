import AnabranchHistory
import ArgumentParser
import Foundation

@main
struct Anabranch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "anabranch",
        abstract: "A sync server for Realm clients.",
        discussion: """
            EXAMPLES
              anabranch serve --dev --data ./data --listen 127.0.0.1:9090
              anabranch admin sessions --data ./data
              anabranch backup --data ./data --to ./backup-monday
              anabranch verify --data ./data
              anabranch log --data ./data --path '/"notes"' --count 10
            """,
        version: BuildInfo.text,
        groupedSubcommands: [
            CommandGroup(
                name: "Server",
                subcommands: [ServeCommand.self, AdminCommand.self, ConfigCommand.self, KeyCommand.self]),
            CommandGroup(
                name: "Data",
                subcommands: [
                    BackupCommand.self, RestoreCommand.self, VerifyCommand.self, RepairCommand.self,
                    ExportCommand.self, ImportCommand.self, InspectCommand.self, LogCommand.self, ShowCommand.self,
                    ChangesetCommand.self,
                ]),
        ])

    static func main() async {
        do {
            let arguments = try CommandNames.checked(Array(CommandLine.arguments.dropFirst()), in: Anabranch.self)
            var command = try parseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            end(because: error)
        }
    }

    /// Every error has one form: a line on standard error for each mistake, and the exit status.
    private static func end(because error: any Error) -> Never {
        switch error {
        case let error as HistoryError: fail(error.reason, .failure)
        case let error as AccountError: fail(error.reason, .failure)
        case let error as InputError: fail(error.description, .failure)
        case let error as ConfigurationError: fail(error.description, .validationFailure)
        case let error as CommandNames.Mistake: fail(error.description, .validationFailure)
        default: exit(withError: error)
        }
    }

    private static func fail(_ text: String, _ status: ExitCode) -> Never {
        let lines = text.split(separator: "\n").map { "Error: \($0)\n" }.joined()
        FileHandle.standardError.write(Data(lines.utf8))
        Foundation.exit(status.rawValue)
    }
}
