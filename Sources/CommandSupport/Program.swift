package import ArgumentParser
import Foundation

/// The frame of both programs, from their arguments to the exit status.
extension AsyncParsableCommand {
    /// Runs the command that the arguments of the process name, and ends the process if it fails. Every error has one
    /// form: a line on standard error for each mistake, and the exit status.
    ///
    /// Runs on the main thread: other threads get no signal for their own actions, such as writing into a closed pipe.
    /// - Parameters:
    ///   - moved: former names of commands, each with its present command line.
    ///   - hints: options of other programs, and endings of files that no command takes by themselves, such as
    ///     ".yaml", each with the way in which it is done here.
    ///   - explain: the text for an error, and the exit status; nil for the errors of the argument parser.
    @MainActor package static func runProgram(
        moved: [String: String] = [:], hints: [String: String] = [:],
        explaining explain: @Sendable (any Error) -> (text: String, status: ExitCode)?
    ) async {
        StandardOutput.checkAtExit()
        do {
            let given = Array(CommandLine.arguments.dropFirst())
            if let first = given.first, let newName = moved[first] {
                throw CommandNames.Mistake(description: "'\(_commandName) \(first)' is '\(newName)' now.")
            }
            let arguments = try CommandNames.checked(CommandNames.joiningNegativeNumbers(given), in: Self.self)
            var command = try parseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch let error as CommandNames.Mistake {
            fail(error.description, .validationFailure)
        } catch {
            guard let (text, status) = explain(error) else {
                guard let hint = hint(for: error, hints) else { exit(withError: error) }
                fail(hint, exitCode(for: error))
            }
            fail(text, status)
        }
    }

    /// The message of the argument parser about an unknown option, with what was probably meant.
    private static func hint(for error: any Error, _ hints: [String: String]) -> String? {
        let message = message(for: error)
        guard let word = message.split(separator: "'").dropFirst().first else { return nil }
        if message.hasPrefix("Unknown option '") {
            return hints[String(word)].map { "Unknown option '\(word)': \($0)" }
        }
        guard message.hasPrefix("Unexpected argument '"), let dot = word.lastIndex(of: ".") else { return nil }
        return hints[String(word[dot...])].map { "Unexpected argument '\(word)': \($0)" }
    }

    private static func fail(_ text: String, _ status: ExitCode) -> Never {
        let lines = text.split(separator: "\n").map { "Error: \($0)\n" }.joined()
        StandardError.write(lines)
        Foundation.exit(status.rawValue)
    }
}

/// A count of something, in words: `1 file`, `2 files`, `2 entries`.
package func counted(_ count: some BinaryInteger, _ word: String) -> String {
    guard count != 1 else { return "1 \(word)" }
    return word.hasSuffix("ry") ? "\(count) \(word.dropLast())ies" : "\(count) \(word)s"
}
