import ArgumentParser

@main
struct Anabranch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "anabranch",
        abstract: "A sync server for Realm clients, and the tools around its changesets.",
        discussion: """
            EXAMPLES
              anabranch serve --dev --data ./data --listen 127.0.0.1:9090
              anabranch admin sessions
              anabranch verify --data ./data
              anabranch changeset print upload.bin
              anabranch vectors Tests/Vectors/*.jsonl.zst
            """,
        subcommands: [
            ServeCommand.self, AdminCommand.self, ConfigCommand.self, KeyCommand.self, VerifyCommand.self,
            InspectCommand.self, LogCommand.self, ShowCommand.self, ChangesetCommand.self, VectorsCommand.self,
            MergeCommand.self,
            BenchCommand.self, BenchServerCommand.self, CasesCommand.self, DiffMergeCommand.self, TraceCommand.self,
            ConvergeCommand.self, BenchApplyCommand.self,
        ])
}
