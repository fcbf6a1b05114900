import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation

struct BenchCasesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cases",
        abstract: "Write the merge cases of the benchmark.",
        discussion: """
            Writes a JSON line a case, for `anabranch-lab bench merge` and `anabranch-lab merge`. The same seed gives \
            the same bytes. Until all are written the file is called OUTPUT.partial.

            EXAMPLES
              anabranch-lab bench cases cases.jsonl
              anabranch-lab bench cases lists.jsonl --only list-insert --large --seed 7
            """)

    @Argument(help: "Where the cases go; - is the standard output.")
    var output: String

    @Flag(help: "Add lists of 64,000 and 256,000 operations a side, and 64,000 objects.")
    var large = false

    @Option(help: ArgumentHelp("Write only cases whose name starts so.", valueName: "prefix"))
    var only = ""

    @Option(help: "Moves every random stream: the same families on other inputs.")
    var seed = 0

    func run() throws {
        let all = BenchmarkCase.all(seed: seed, large: large), cases = all.filter { $0.name.hasPrefix(only) }
        guard !cases.isEmpty else {
            let names = all.map(\.name).joined(separator: ", ")
            throw InputError(description: "--only \(only): no case begins so; there are \(names)")
        }
        let interruption = Interruption(), file = try OutputFile(output)
        for (number, mergeCase) in cases.enumerated() {
            guard !interruption.isAsked else {
                file.discard()
                RunProgress.say("stopped after \(number) of \(cases.count) cases: \(output) is not written")
                throw ExitCode(Interruption.status)
            }
            try file.write(Data(mergeCase.line()))
        }
        try file.finish()
    }
}
