import Foundation
import Testing

/// A store on disk with a sealed log.
@Suite struct SealedBenchmarkTests {
    private struct Figures: Decodable {
        var segments: Int
        var storedBytes: Double
    }

    private struct Explanations: Decodable {
        var explainBytes: Double
    }

    @Test func allButTheNewestEntriesAreSealed() async throws {
        let answer = try await LabProcess.run(["bench", "sealed", "--entries", "20000"])
        #expect(answer.status == 0, "\(answer.complaint)")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let lines = answer.output.split(separator: "\n")
        let figures = try decoder.decode(Figures.self, from: Data(lines[0].utf8))
        #expect(figures.segments == 25)
        // Rows take 20 times as much.
        #expect(figures.storedBytes < 40, "\(figures)")
        let explanations = try decoder.decode(Explanations.self, from: Data(lines[1].utf8))
        #expect(0..<6 ~= explanations.explainBytes)
    }
}
