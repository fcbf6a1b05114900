import Foundation

/// A program that sends e-mails. It is started for each one, without a shell, and reads one line of JSON.
struct EmailCommand {
    let words: [String]
    let secondsMax: Int

    func run(_ input: String) async throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: words[0])
        process.arguments = Array(words.dropFirst())
        process.standardOutput = FileHandle.nullDevice
        let pipe = Pipe()
        process.standardInput = pipe
        // Before the program reads it: a pipe takes some KiB at once, and a program that reads nothing does no harm.
        try pipe.fileHandleForWriting.write(contentsOf: Data(input.utf8))
        let (endings, end) = AsyncStream.makeStream(of: Never.self)
        process.terminationHandler = { _ in end.finish() }
        do {
            try process.run()
        } catch {
            throw EmailError("\(words[0]) cannot be started")
        }
        try pipe.fileHandleForWriting.close()
        let ident = process.processIdentifier
        let limit = Task {
            try await Task.sleep(for: .seconds(secondsMax))
            kill(ident, SIGKILL)
            return true
        }
        for await _ in endings {}
        limit.cancel()
        if process.terminationReason == .exit, process.terminationStatus == 0 { return }
        if (try? await limit.value) == true {
            throw EmailError("\(words[0]) has not ended within \(secondsMax) s, and was killed")
        }
        let how = process.terminationReason == .exit ? "status" : "signal"
        throw EmailError("\(words[0]) ended with \(how) \(process.terminationStatus)")
    }
}
