import Foundation
import Testing

/// The size of a bootstrap generation. The bytes are the same in each run.
@Suite struct GenerationBenchmarkTests {
    private struct Workload: Decodable {
        var name: String
        var objects: Int
        var stateBytes: Int
        var changesets: Int
        var generationBytes: Int
        var deflatedBytes: Int
    }

    private func workloads(_ options: String...) async throws -> [Workload] {
        let answer = try await LabProcess.run(["bench", "generation", "--repeats", "1"] + options)
        #expect(answer.status == 0, "\(answer.complaint)")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try answer.output.split(separator: "\n").map {
            try decoder.decode(Workload.self, from: Data($0.utf8))
        }
    }

    @Test func aGenerationIsSomeTimesAsLargeAsItsStateAndDeflatesWell() async throws {
        let workloads = try await workloads("--objects", "2000")
        #expect(workloads.map(\.name) == ["objects", "list"])
        #expect(workloads.map(\.objects) == [2_000, 1])
        for workload in workloads {
            #expect(workload.generationBytes < 5 * workload.stateBytes, "\(workload)")
            #expect(workload.deflatedBytes < workload.generationBytes / 2, "\(workload)")
            #expect(workload.changesets == (workload.generationBytes - 1) / (128 << 10) + 1, "\(workload)")
        }
    }

    @Test func whereChangesetsEndCanBeSaid() async throws {
        let few = try await workloads("--objects", "20", "--cut", "1000")
        let many = try await workloads("--objects", "20", "--cut", "1")
        #expect(few[1].changesets == 1 && many[1].changesets == 23)
        #expect(few[0].changesets > 1 && many[0].changesets > few[0].changesets)
    }

    @Test(arguments: [["--objects", "0"], ["--cut", "0"], ["--level", "10"], ["--repeats", "0"]])
    func aNumberOutOfRangeIsRefused(options: [String]) async throws {
        let answer = try await LabProcess.run(["bench", "generation"] + options)
        #expect(answer.status == 64 && answer.output.isEmpty)
        #expect(answer.complaint.contains("Error:"))
    }
}
