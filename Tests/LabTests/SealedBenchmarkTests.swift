import Foundation
import Testing

/// A store on disk with a sealed log.
@Suite struct SealedBenchmarkTests {
    private struct Figures: Decodable {
        var segments: Int
        var storedBytes: Double
    }

    @Test func allButTheNewestEntriesAreSealed() async throws {
        let answer = try await LabProcess.run(["bench", "sealed", "--entries", "20000"])
        #expect(answer.status == 0, "\(answer.complaint)")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let figures = try decoder.decode(Figures.self, from: Data(answer.output.utf8))
        #expect(figures.segments == 25)
        // Rows take 20 times as much.
        #expect(figures.storedBytes < 40, "\(figures)")
    }
}
