import Foundation
import Testing

/// The file that `bench realm-file` measures with, and what it makes of it.
@Suite final class RealmFileBenchmarkTests {
    private struct Figures: Decodable {
        var objects: Int, bytes: Int, ms: Double, stateMs: Double
    }

    private let file = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID()).realm")

    deinit { try? FileManager.default.removeItem(at: file) }

    @Test func aFileHasTheObjectsThatAreWanted() async throws {
        let count = 600
        let answer = try await LabProcess.run(
            ["bench", "realm-file", "--objects", "\(count)", "--repeats", "1", "--keep", file.path()])
        #expect(answer.status == 0, "\(answer.complaint)")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let figures = try decoder.decode(Figures.self, from: Data(answer.output.utf8))
        #expect(figures.objects == count && figures.bytes > 280 * count && figures.ms > 0 && figures.stateMs > 0)
        #expect(try Data(contentsOf: file).count == figures.bytes)
    }
}
