import AnabranchTesting
import Foundation
import Testing

/// The built command.
final class LabProcess {
    struct Answer {
        var status: Int32
        var output: String
        var complaint: String
    }

    /// The built server.
    static var server: String { get throws { try #require(BuiltProducts.command("anabranch")).path } }

    static func run(_ arguments: [String]) async throws -> Answer { try await LabProcess(arguments).end() }

    private let process = Process()
    private let output = Pipe()
    private let complaints = Pipe()
    private var complaint: [UInt8] = []

    /// - Parameter temporary: the directory of its temporary files; nil for the usual one.
    init(_ arguments: [String], temporary: URL? = nil) throws {
        let executable: URL = try #require(BuiltProducts.command("anabranch-lab"))
        process.executableURL = executable
        process.arguments = arguments
        if let temporary {
            process.environment = ProcessInfo.processInfo.environment.merging(["TMPDIR": temporary.path]) { $1 }
        }
        process.standardOutput = output
        process.standardError = complaints
        // Tests run on threads that block signals, which the command would inherit.
        var none = sigset_t(), before = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        try process.run()
    }

    /// Waits until it says something on standard error.
    func waitForComplaint(_ words: String) throws {
        while !String(decoding: complaint, as: UTF8.self).contains(words) {
            complaint += try #require(
                try complaints.fileHandleForReading.read(upToCount: 1),
                "it ends without \"\(words)\": \(String(decoding: complaint, as: UTF8.self))")
        }
    }

    func send(_ signal: Int32) { kill(process.processIdentifier, signal) }

    /// Waits for its end, on a thread of its own: there are few for all tests. It says little on standard error.
    func end() async throws -> Answer {
        let process = process, output = output, complaints = complaints, said = complaint
        return try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result {
                        let text = try output.fileHandleForReading.readToEnd() ?? Data()
                        let complaint = said + (try complaints.fileHandleForReading.readToEnd() ?? Data())
                        process.waitUntilExit()
                        return Answer(
                            status: process.terminationStatus, output: String(decoding: text, as: UTF8.self),
                            complaint: String(decoding: complaint, as: UTF8.self))
                    })
            }
        }
    }
}
