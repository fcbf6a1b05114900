import AnabranchTesting
import Foundation
import Testing

/// The built command as a process of its own, which can be killed.
final class ServerProcess {
    struct DidNotStart: Error {}

    let port: Int
    private let process: Process
    /// Ends when the process has ended.
    private let ending: AsyncStream<Never>

    static let executable = BuiltProducts.command("anabranch")

    /// Starts a server over the directory and waits until it listens.
    /// - Parameter log: what gets its standard error.
    init(
        data: String, arguments: [String] = ["--dev", "--listen", "127.0.0.1:0"], log: FileHandle = .nullDevice
    ) async throws {
        let process = Process()
        let executable: URL = try #require(Self.executable)
        process.executableURL = executable
        process.arguments = ["serve", "--data", data] + arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = log
        let (ending, end) = AsyncStream.makeStream(of: Never.self)
        // `waitUntilExit` needs a processor for itself on a thread that has not started the process.
        process.terminationHandler = { _ in end.finish() }
        try process.run()
        self.process = process
        self.ending = ending
        let line: String = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var text: [UInt8] = []
                while let byte = try? output.fileHandleForReading.read(upToCount: 1)?.first, byte != 10 {
                    text.append(byte)
                }
                continuation.resume(returning: String(decoding: text, as: UTF8.self))
            }
        }
        guard let port = Int(line.split(separator: ":").last ?? "") else { throw DidNotStart() }
        self.port = port
    }

    var processIdentifier: Int32 { process.processIdentifier }

    /// Ends it between two of its instructions.
    func kill() async {
        Foundation.kill(process.processIdentifier, SIGKILL)
        await waitForExit()
    }

    /// Ends it in order.
    /// - Returns: the exit status.
    @discardableResult
    func terminate() async -> Int32 {
        process.terminate()
        return await waitForExit()
    }

    @discardableResult
    private func waitForExit() async -> Int32 {
        for await _ in ending {}
        return process.terminationStatus
    }
}
