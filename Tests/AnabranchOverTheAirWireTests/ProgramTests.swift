import AnabranchTesting
import Foundation
import Testing

/// Devices in Python, made from the description alone, with a server as a process of its own: `Tests/Fixtures/ota`.
@Suite(.timeLimit(.minutes(30))) struct ProgramTests {
    private static let tree = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Devices of all kinds on one account, those of `anabranch ota` among them, with a Realm client and a client of
    /// Simperium's wire, with a server and devices that are killed and connections that are cut, at random.
    /// `ANABRANCH_SEED` and `ANABRANCH_COUNT` choose others; a count `sessions=2000` is as many worlds as give devices
    /// of each form and language so many sessions.
    @Test func devicesAgreeAtRest() async throws {
        let environment = ProcessInfo.processInfo.environment
        let seed = environment["ANABRANCH_SEED"] ?? "1", count = environment["ANABRANCH_COUNT"] ?? "3"
        let text = try await Self.run("world.py", seed, count)
        #expect(
            text.contains("worlds from seed \(seed); sessions: "),
            "\(text)\nagain: ANABRANCH_SEED=\(seed) ANABRANCH_COUNT=\(count) scripts/check --filter devicesAgreeAtRest")
    }

    /// Sessions that are cut after each message, in both directions; with `ANABRANCH_CUTS=all` those of `anabranch ota`
    /// too.
    @Test func everyCutLeadsToTheSame() async throws {
        let text = try await Self.run("cuts.py")
        #expect(text.contains("ok "), "\(text)")
    }

    private static func run(_ script: String, _ words: String...) async throws -> String {
        let program = try #require(BuiltProducts.command("anabranch")).path()
        let script = tree.appending(path: "Tests/Fixtures/ota/\(script)").path()
        return try await onOwnThread {
            let process = Process(), output = Pipe()
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = ["PYTHONDONTWRITEBYTECODE=1", "python3", script, program] + words
            process.standardOutput = output
            process.standardError = output
            try process.run()
            let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            return text
        }
    }
}
