import Foundation

/// The seeds of a property test: the given ones, or the one in the environment variable `ANABRANCH_SEED`.
///
/// A failure prints `repeatCommand`, which runs the one seed again.
enum Seeds {
    static func upTo(_ count: UInt64) -> [UInt64] {
        if let seed = ProcessInfo.processInfo.environment["ANABRANCH_SEED"].flatMap(UInt64.init) { return [seed] }
        return Array(0..<count)
    }

    static func repeatCommand(_ test: String, seed: UInt64) -> String {
        "seed \(seed); again with: ANABRANCH_SEED=\(seed) "
            + "swift test -c release -Xswiftc -enable-testing --filter \(test)"
    }
}
