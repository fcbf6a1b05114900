import AnabranchClient
import AnabranchReplica
import AnabranchTesting
import Foundation
import Testing

/// A replica does in each random life the same in memory, in a file, and on a plain model of a store; and a step that
/// cannot be stored has not happened.
@Suite struct ReplicaRunTests {
    enum Kind: String, CaseIterable {
        case model, file
    }

    @Test(arguments: Kind.allCases)
    func everyStepIsStoredWholeOrNotAtAll(_ kind: Kind) async throws {
        let seeds = ProcessInfo.processInfo.environment["ANABRANCH_SEED"].flatMap(UInt64.init).map { $0...$0 }
        var tally: [String: Int] = [:], endedEarly = 0
        for seed in seeds ?? (kind == .model ? 1...150 : 1...40) {
            do {
                let (counts, isWhole) = try Self.run(kind, seed: seed)
                tally.merge(counts, uniquingKeysWith: +)
                if !isWhole { endedEarly += 1 }
            } catch {
                Issue.record(
                    """
                    \(kind.rawValue), seed \(seed): \(error); repeat with
                    ANABRANCH_SEED=\(seed) swift test --filter everyStepIsStoredWholeOrNotAtAll
                    """)
            }
            await Task.yield()  // all tests share a few threads
        }
        guard seeds == nil else { return }
        #expect(endedEarly < 10)
        #expect(tally.count == 12)
        #expect(tally.values.min() ?? 0 > 10)
    }

    private static func run(_ kind: Kind, seed: UInt64) throws -> ([String: Int], isWhole: Bool) {
        guard kind == .file else {
            var run = try ReplicaRun(seed: seed, ModelReplicaStore()) { $0 }
            return (try run.run(steps: 60), run.isWhole)
        }
        let folder = URL(filePath: TestFolder.parent).appending(path: "replica-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "a.replica").path
        var run = try ReplicaRun(seed: seed, try SQLiteReplicaStore(path: path)) { store in
            try store.close()
            return try SQLiteReplicaStore(path: path)
        }
        return (try run.run(steps: 60), run.isWhole)
    }
}
