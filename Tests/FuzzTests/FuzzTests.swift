import Foundation
import Testing

/// The inputs that the fuzzers begin with, those that they have found, and mutations of both: nothing traps, and
/// nothing is wrong. `scripts/fuzz` looks for more.
@Suite struct FuzzTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let folder = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Fuzz")

    /// Inputs of a target by the paths of their files.
    private static func inputs(_ kind: String, of target: FuzzTarget) throws -> [(name: String, bytes: [UInt8])] {
        let folder = folder.appendingPathComponent(kind).appendingPathComponent(target.rawValue)
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        return try names.sorted().map { ($0, Array(try Data(contentsOf: folder.appendingPathComponent($0)))) }
    }

    @Test(arguments: FuzzTarget.allCases) func whatWasFoundIsRight(target: FuzzTarget) throws {
        let corpus = try Self.inputs("Corpus", of: target)
        #expect(corpus.count >= 8, "\(target.rawValue)")
        for (name, bytes) in corpus + (try Self.inputs("Crashers", of: target)) {
            let problem = target.problem(of: bytes)
            #expect(problem == nil, "\(target.rawValue)/\(name)")
        }
    }

    /// Some of the mutations have one seed.
    private static let blockCount = 10_000

    /// How many there are of each: 250,000 in all, most of what takes the least time. `ANABRANCH_MUTATIONS` makes it
    /// so many of each.
    private static func count(of target: FuzzTarget) -> Int {
        if let count = environment["ANABRANCH_MUTATIONS"].flatMap({ Int($0) }) { return count }
        return switch target {
        case .clientMessage: 100_000
        case .json: 50_000
        case .serverMessage, .changeset: 20_000
        case .documents, .query, .connection: 7_000
        case .xmlPropertyList, .binaryPropertyList, .overTheAirMessage, .jsonDiff, .indexMark: 6_000
        case .realmFile, .simperiumMessages: 2_500
        case .transform: 1_500
        }
    }

    /// `ANABRANCH_SEED` repeats one block, and `ANABRANCH_TRACE` names a file that gets each input before it is tried.
    @Test(arguments: FuzzTarget.allCases) func mutationsAreRight(target: FuzzTarget) throws {
        let corpus = (try Self.inputs("Corpus", of: target) + Self.inputs("Crashers", of: target)).map(\.bytes)
        try #require(!corpus.isEmpty)
        let only = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init), count = Self.count(of: target)
        let blocks = only.map { $0...$0 } ?? 1...UInt64(max(1, count / Self.blockCount))
        let trace = Self.environment["ANABRANCH_TRACE"].map { URL(fileURLWithPath: $0) }
        for seed in blocks {
            var mutator = Mutator(target, corpus: corpus, seed: seed)
            for _ in 0..<min(count, Self.blockCount) {
                let bytes = mutator.next()
                if let trace { try Data(bytes).write(to: trace) }
                guard let problem = target.problem(of: bytes) else { continue }
                Issue.record(
                    """
                    \(target.rawValue): \(problem)
                    the input in Base64: \(Data(bytes).base64EncodedString())
                    repeat with ANABRANCH_SEED=\(seed) swift test --filter FuzzTests
                    """)
                return
            }
        }
    }
}
