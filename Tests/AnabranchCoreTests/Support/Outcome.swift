@testable import AnabranchCore

/// What a merge came to: the bytes and flags of both sides, or that it was refused.
enum Outcome: Equatable {
    case merged([[UInt8]], dirty: [Bool])
    case refused
    case undecodable

    /// Merges changesets with versions from 1 on each side; the local ones are the older ones.
    static func ofMerging(
        _ local: [[UInt8]], _ incoming: [[UInt8]], _ strategy: MergeStrategy,
        _ tuning: MergeThresholds = MergeThresholds()
    ) -> Outcome {
        var arena = ChangesetArena()
        arena.tuning = tuning
        var sides: (local: [Int], incoming: [Int]) = ([], [])
        do throws(ChangesetError) {
            for (index, bytes) in local.enumerated() {
                let tag = OriginTag(timestamp: 10, ident: 2)
                sides.local.append(try arena.decode(bytes, version: UInt64(index) + 1, tag: tag))
            }
            for (index, bytes) in incoming.enumerated() {
                let tag = OriginTag(timestamp: 20, ident: 3)
                sides.incoming.append(try arena.decode(bytes, version: UInt64(index) + 1, tag: tag))
            }
        } catch {
            return .undecodable
        }
        guard (try? arena.merge(local: sides.local, incoming: sides.incoming, strategy: strategy)) != nil else {
            return .refused
        }
        return Outcome(of: arena)
    }

    init(of arena: ChangesetArena) {
        let changesets = 0..<arena.count
        self = .merged(changesets.map { arena.encoded($0) }, dirty: changesets.map { arena.isDirty($0) })
    }
}
