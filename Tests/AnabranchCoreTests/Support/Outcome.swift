@testable import AnabranchCore

/// What a merge came to: the bytes and flags of both sides, or that it was refused.
enum Outcome: Equatable {
    case merged([[UInt8]], dirty: [Bool])
    case refused
    case undecodable

    /// Merges changesets with versions from 1 on each side; the local ones are the older ones.
    static func ofMerging(
        _ local: [[UInt8]], _ incoming: [[UInt8]], _ strategy: MergeStrategy, _ tuning: MergeTuning = MergeTuning()
    ) -> Outcome {
        var pool = ChangesetPool()
        pool.tuning = tuning
        var sides: (local: [Int], incoming: [Int]) = ([], [])
        do throws(ChangesetError) {
            for (index, bytes) in local.enumerated() {
                let tag = OriginTag(timestamp: 10, ident: 2)
                sides.local.append(try pool.decode(bytes, version: UInt64(index) + 1, tag: tag))
            }
            for (index, bytes) in incoming.enumerated() {
                let tag = OriginTag(timestamp: 20, ident: 3)
                sides.incoming.append(try pool.decode(bytes, version: UInt64(index) + 1, tag: tag))
            }
        } catch {
            return .undecodable
        }
        guard (try? pool.merge(local: sides.local, incoming: sides.incoming, strategy: strategy)) != nil else {
            return .refused
        }
        return Outcome(of: pool)
    }

    init(of pool: ChangesetPool) {
        let changesets = 0..<pool.count
        self = .merged(changesets.map { pool.encoded($0) }, dirty: changesets.map { pool.isDirty($0) })
    }
}
