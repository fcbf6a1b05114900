import Foundation
import Testing

/// A store whose objects are overwritten again and again.
@Suite struct GrowthBenchmarkTests {
    private struct Cycle: Decodable {
        var version: UInt64, storedBytes: Int
    }

    private struct Slope: Decodable {
        var slopeBytes: Double, slopeShare: Double
    }

    @Test func theSizeAfterEachCycleIsPrintedAndTheSlope() async throws {
        let answer = try await LabProcess.run(["bench", "growth", "--cycles", "4", "--megabytes", "2"])
        #expect(answer.status == 0, "\(answer.complaint)")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let lines = answer.output.split(separator: "\n").map { Data($0.utf8) }
        let cycles = try lines.dropLast().map { try decoder.decode(Cycle.self, from: $0) }
        let slope = try decoder.decode(Slope.self, from: try #require(lines.last))
        #expect(cycles.map(\.version) == [33, 65, 97, 129])
        #expect(slope.slopeBytes == Double(cycles[3].storedBytes - cycles[2].storedBytes))
        #expect(abs(slope.slopeShare - slope.slopeBytes / Double(2 << 20)) < 0.001)
    }
}
