import Foundation

/// A fault that a drill has found.
struct DrillFailure: Error, CustomStringConvertible {
    let description: String
}

/// Commands of the program that is drilled.
struct ServerCommand {
    let binary: String

    /// - Throws: `DrillFailure` with the output of the command, if its exit status is not 0.
    func runNow(_ arguments: [String]) throws {
        let process = Process(), output = Pipe()
        process.executableURL = URL(fileURLWithPath: binary)
        process.arguments = arguments
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            let words = String(decoding: text, as: UTF8.self).suffix(500)
            throw DrillFailure(
                description: "anabranch \(arguments[0]) fails with \(process.terminationStatus): \(words)")
        }
    }

    /// Runs a command like `runNow`, on a thread of its own.
    func run(_ arguments: [String]) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            Thread.detachNewThread { continuation.resume(with: Result { try runNow(arguments) }) }
        }
    }
}
