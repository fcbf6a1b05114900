import Foundation
import Testing

/// Runs the built command.
enum LabProcess {
    struct Answer {
        var status: Int32
        var output: String
        var complaint: String
    }

    /// The directory of the built commands.
    private static var products: URL {
        get throws {
            #if os(macOS)
            let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }?.bundleURL
            #else
            let bundle = Bundle.main.executableURL
            #endif
            return try #require(bundle).deletingLastPathComponent()
        }
    }

    /// The built server.
    static var server: String { get throws { try products.appendingPathComponent("anabranch").path } }

    static func run(_ arguments: [String]) throws -> Answer {
        let process = Process(), output = Pipe()
        let complaints = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try Data().write(to: complaints)
        defer { try? FileManager.default.removeItem(at: complaints) }
        process.executableURL = try products.appendingPathComponent("anabranch-lab")
        process.arguments = arguments
        process.standardOutput = output
        process.standardError = try FileHandle(forWritingTo: complaints)
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return Answer(
            status: process.terminationStatus, output: String(decoding: text, as: UTF8.self),
            complaint: try String(contentsOf: complaints, encoding: .utf8))
    }
}
