import Foundation
import Testing

/// The size of sealed log entries. The bytes are the same in each run with one release of zstd.
@Suite struct SegmentsBenchmarkTests {
    private struct Workload: Decodable {
        var name: String
        var changesetBytes: Double
        var sealedBytes: Double
    }

    @Test func smallTransactionsTakeTwelveBytes() async throws {
        let answer = try await LabProcess.run(["bench", "segments", "--segments", "4"])
        #expect(answer.status == 0, "\(answer.complaint)")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let workloads = try answer.output.split(separator: "\n").map {
            try decoder.decode(Workload.self, from: Data($0.utf8))
        }
        #expect(workloads.map(\.name) == ["settings", "texts", "objects"])
        let settings = try #require(workloads.first)
        #expect(35...45 ~= settings.changesetBytes && settings.sealedBytes <= 12, "\(settings)")
        #expect(workloads.allSatisfy { $0.sealedBytes < $0.changesetBytes / 2 }, "\(workloads)")
    }
}
