import Foundation
import Testing

/// `anabranch-lab bench capture`.
@Suite struct CaptureBenchmarkTests {
    private struct Line: Decodable {
        let name: String
        let what: String?
        let floorRatio: Double?

        enum CodingKeys: String, CodingKey {
            case name, what
            case floorRatio = "floor_ratio"
        }
    }

    @Test("each kind of write is measured with capture, and with triggers that write nothing")
    func capture() async throws {
        let answer = try await LabProcess.run(
            ["bench", "capture", "--rows", "500", "--installed", "500", "--repeats", "2"])
        #expect(answer.status == 0, "\(answer)")
        let lines = try answer.output.split(separator: "\n").map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }
        let writes = Array(repeating: ["insert", "update", "delete"], count: 4).flatMap { $0 }
        #expect(lines.compactMap(\.what) == writes, "\(answer)")
        #expect(lines.suffix(3).map(\.name) == ["install", "collect", "apply"], "\(answer)")
        #expect(lines.prefix(writes.count).allSatisfy { $0.floorRatio.map { $0 > 0 } ?? false }, "\(answer)")
    }
}
