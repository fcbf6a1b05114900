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
              anabranch verify --data ./data
              anabranch log --data ./data --path '/"notes"' --count 10
            """,
        groupedSubcommands: [
            CommandGroup(
                name: "Server",
                subcommands: [ServeCommand.self, AdminCommand.self, ConfigCommand.self, KeyCommand.self]),
            CommandGroup(
                name: "Data",
                subcommands: [
                    VerifyCommand.self, RepairCommand.self, RestoreCommand.self, InspectCommand.self, LogCommand.self,
                    ShowCommand.self, ChangesetCommand.self,
                ]),
        ])

    static func main() async {
        if let notice = MovedCommands.notice(for: CommandLine.arguments.dropFirst()) {
            FileHandle.standardError.write(Data(notice.utf8))
            Foundation.exit(ExitCode.validationFailure.rawValue)
        }
        await main(nil)
    }
}
