import ArgumentParser
import Foundation

/// The program whose server a command starts, and ends in every way.
struct ServedProgram: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The `anabranch` to be started; by default the one in the directory of this program.", valueName: "binary"))
    var serve: String?

    /// The path of the program.
    /// - Throws: `LoadError` if there is no such program.
    func path() throws -> String {
        let directory = URL(fileURLWithPath: Bundle.main.executablePath ?? CommandLine.arguments[0])
            .deletingLastPathComponent()
        let path = serve ?? directory.appendingPathComponent("anabranch").path
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw LoadError("--serve: there is no program \(path)")
        }
        return path
    }
}
