import Foundation
import Testing

/// The bytes that a small change of a large object writes. The bytes are the same in each run.
@Suite struct RowsBenchmarkTests {
    private struct Workload: Decodable {
        var name: String?
        var logBytes: Int?
    }

    @Test func everyWorkloadWritesLittle() async throws {
        let answer = try await LabProcess.run(["bench", "rows", "--list", "20000", "--changes", "2"])
        #expect(answer.status == 0, "\(answer.complaint)")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let workloads = try answer.output.split(separator: "\n").map {
            try decoder.decode(Workload.self, from: Data($0.utf8))
        }
        #expect(workloads.compactMap(\.name) == ["counter", "values", "list", "dictionary", "links"])
        for workload in workloads where workload.name != nil {
            #expect(try 1...65_536 ~= #require(workload.logBytes), "\(workload)")
        }
    }
}
