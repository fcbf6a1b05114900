import Foundation
import Testing

@testable import anabranch_lab

@Suite struct ServerGaugesTests {
    @Test func levelsAreReadAndNothingElse() {
        let text = """
            # TYPE anabranch_sessions gauge
            anabranch_sessions 12
            anabranch_websockets 3.0
            anabranch_sessions_opened_total 40
            anabranch_handshakes_total{outcome="admitted"} 3

            """
        #expect(ServerGauges.values(in: text) == ["anabranch_sessions": 12, "anabranch_websockets": 3])
    }

    /// The second line is the path of the certificate.
    @Test func anAdminInterfaceWithTLSIsNotAsked() async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        try Data("https://127.0.0.1:1\n/certificate.pem\n".utf8)
            .write(to: directory.appendingPathComponent("admin-address"))
        try Data("token\n".utf8).write(to: directory.appendingPathComponent("admin-token"))
        let error = await #expect(throws: LoadError.self) {
            try await ServerGauges.read(dataDirectory: directory.path)
        }
        #expect(error?.description.contains("TLS") == true)
    }
}
