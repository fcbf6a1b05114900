import Foundation
import Testing

/// `anabranch-lab bench exchange`.
@Suite struct ExchangeBenchmarkTests {
    private struct Line: Decodable {
        let name: String
        let what: String
        let direction: String
        let rows: Int
        let peakMiB: Double

        enum CodingKeys: String, CodingKey {
            case name, what, direction, rows
            case peakMiB = "peak_mib"
        }
    }

    @Test("capture and bridge exchange rows with a server, and their memory is measured")
    func exchange() async throws {
        let answer = try await LabProcess.run(["bench", "exchange", "--serve", LabProcess.server, "--rows", "500"])
        #expect(answer.status == 0, "\(answer)")
        let lines = try answer.output.split(separator: "\n").map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }
        let expected = ["capture", "bridge"].flatMap { name in
            ["nothing", "insert", "update", "delete"].flatMap { what in
                ["up", "down"].map { "\(name) \(what) \($0) \(what == "nothing" ? 0 : 500)" }
            }
        }
        #expect(lines.map { "\($0.name) \($0.what) \($0.direction) \($0.rows)" } == expected, "\(answer)")
        #expect(lines.allSatisfy { $0.peakMiB > 1 }, "\(answer)")
    }
}
