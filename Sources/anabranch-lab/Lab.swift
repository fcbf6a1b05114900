import AnabranchTesting
import ArgumentParser
import CommandSupport

@main
struct Lab: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "anabranch-lab",
        abstract: "Proofs and measurements of Anabranch.",
        discussion: """
            EXAMPLES
              anabranch-lab check vectors Tests/Vectors/*.jsonl.zst
              anabranch-lab check queries Tests/Vectors/Queries/queries.jsonl.zst
              anabranch-lab check realm-files Tests/Vectors/RealmFiles
              anabranch-lab fuzz merge --cases 200000 --seed 1
              anabranch-lab simulate --seed 1 --count 200
              anabranch-lab drill --serve .build/release/anabranch --count 20
              anabranch-lab torture --clients 8 --seconds 60 --seed 1
              anabranch-lab soak --minutes 60
              anabranch-lab replica random --ops 20000 --seed 1
              anabranch-lab bench cases cases.jsonl
              anabranch-lab bench merge cases.jsonl --repeats 5
              anabranch-lab load fanout --readers 1000 --serve .build/release/anabranch
              anabranch-lab attack all --serve .build/release/anabranch
            """,
        version: BuildInfo.text(of: "anabranch-lab"),
        groupedSubcommands: [
            CommandGroup(
                name: "Proof",
                subcommands: [
                    CheckCommand.self, FuzzCommand.self, SimulateCommand.self, DrillCommand.self, KillsCommand.self,
                    TortureCommand.self,
                    TortureClientCommand.self, SoakCommand.self, ReplicaCommand.self, ReplayCommand.self,
                    MergeCommand.self,
                ]),
            CommandGroup(
                name: "Measurement", subcommands: [BenchCommand.self, LoadCommand.self, AttackSuiteCommand.self]),
        ])

    static func main() async {
        await runProgram { error in
            switch error {
            case let error as InputError: (error.description, .failure)
            case let error as OutputError: (error.description, .failure)
            default: nil
            }
        }
    }
}

struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Compare the engine with records of the reference.",
        subcommands: [CheckVectorsCommand.self, CheckQueriesCommand.self, CheckRealmFilesCommand.self])
}

struct FuzzCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fuzz", abstract: "Look for random cases in which a promise does not hold.",
        subcommands: [
            FuzzMergeCommand.self, FuzzConvergenceCommand.self, FuzzQueriesCommand.self, FuzzDamageCommand.self,
            FuzzRealmFilesCommand.self,
            FuzzFlexibleCommand.self,
            FuzzHistoryCommand.self,
        ])
}

struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay", abstract: "Replay recorded histories through clients and a server in memory.",
        subcommands: [ReplayTraceCommand.self])
}

struct BenchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "Time merges, a server, a replica, changes of a state, and the sealed part of a log.",
        subcommands: [
            BenchCasesCommand.self, BenchMergeCommand.self, BenchServerCommand.self, BenchApplyCommand.self,
            BenchRowsCommand.self, BenchSegmentsCommand.self, BenchSealedCommand.self, BenchExplainCommand.self,
            BenchGenerationCommand.self, BenchGrowthCommand.self, BenchReplicaCommand.self,
            BenchReplicaMemoryCommand.self, ReplicaMemoryClientCommand.self, BenchStoreCommand.self,
            BenchRealmFileCommand.self, BenchRecordsCommand.self, BenchCaptureCommand.self,
            BenchExchangeCommand.self, BenchObservedCommand.self,
        ])
}
