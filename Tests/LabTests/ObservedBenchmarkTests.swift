import Foundation
import Testing

/// The cost of an observed list; how long it takes is not looked at here.
@Suite struct ObservedBenchmarkTests {
    private struct Line: Decodable {
        var name: String, objects: Int, changed: Double, shown: Double, list_percent: Double, process_percent: Double
    }

    @Test func theListHasWhatTheStoreHas() async throws {
        let answer = try await LabProcess.run([
            "bench", "observed", "--objects", "500", "--rate", "200", "--seconds", "1",
        ])
        #expect(answer.status == 0, "\(answer.complaint)")
        let line = try JSONDecoder().decode(Line.self, from: Data(answer.output.utf8))
        #expect(line.name == "observed" && line.objects == 500)
        #expect(line.changed > 0)
        #expect(line.list_percent <= line.process_percent)
    }
}
