import AnabranchTesting
import Foundation
import Testing

/// `Examples/Bridge`: a report in psql over what phones write.
@Suite(.timeLimit(.minutes(30))) struct BridgeExampleTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test func aManagerReadsWhatPhonesWriteAndAnswers() async throws {
        let products = try #require(BuiltProducts.folder).path()
        let (status, text) = try await onOwnThread {
            let server = try TestPostgres.shared.get()
            let process = Process(), output = Pipe()
            process.executableURL = URL(filePath: "/bin/bash")
            process.arguments = [
                "-c", #"PATH="$0:$PATH" "$1/Examples/Bridge/run.sh" "$2""#, products, Self.root.path(),
                server.url(try server.makeDatabase()),
            ]
            process.standardOutput = output
            process.standardError = output
            try process.run()
            let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            return (process.terminationStatus, text)
        }
        #expect(status == 0, "\(text)")
        #expect(
            text.contains(
                """
                 city  | visits | minutes | yearly | worst 
                -------+--------+---------+--------+-------
                 Oslo  |      2 |     130 |      2 |     3
                 Porto |      1 |      25 |      0 |     0
                (2 rows)
                """), "\(text)")
        #expect(text.contains(#""inspector":"bob""#) && text.contains(#""tags":{"list":["yearly","paid"]}"#), "\(text)")
        #expect(text.contains("5 objects compared, 0 differences"), "\(text)")
    }
}
