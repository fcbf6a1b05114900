import Foundation
import Testing

/// The random runs of a test: with the seeds from 1 on, or with the one in the environment variable `ANABRANCH_SEED`.
struct RandomRuns {
    /// False if there is one alone, of which nothing can be counted.
    let areMany: Bool
    private let seeds: ClosedRange<UInt64>

    private static let environment = ProcessInfo.processInfo.environment

    init(_ count: UInt64) {
        let only = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init)
        areMany = only == nil
        seeds = only.map { $0...$0 } ?? 1...max(1, count)
    }

    /// The usual number, or the one in an environment variable, as of scripts/nightly.
    static func count(_ usual: UInt64, or variable: String) -> UInt64 {
        environment[variable].flatMap(UInt64.init) ?? usual
    }

    /// Records of each run that fails how it is repeated.
    /// - Parameter run: gets the seed.
    func each(_ run: (UInt64) throws -> Void) async {
        for seed in seeds {
            do { try run(seed) } catch {
                let name = Test.current?.name.prefix { $0 != "(" } ?? ""
                Issue.record("\(error); repeat: ANABRANCH_SEED=\(seed) swift test --filter \(name)")
            }
            await Task.yield()  // all tests share a few threads
        }
    }
}
