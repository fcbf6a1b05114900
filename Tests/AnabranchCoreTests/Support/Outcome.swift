@testable import AnabranchCore

/// The result of a merge: the bytes and flags of both sides, or that it was refused.
enum Outcome: Equatable {
    case merged([[UInt8]], dirty: [Bool])
    case refused
    case undecodable

    /// Merges changesets with versions from 1 on each side; the local ones are the older ones.
    static func ofMerging(
        _ local: [[UInt8]], _ incoming: [[UInt8]], _ strategy: MergeStrategy,
        _ thresholds: MergeThresholds = MergeThresholds()
    ) -> Outcome {
        var arena = ChangesetArena()
        var sides: (local: [ChangesetIndex], incoming: [ChangesetIndex]) = ([], [])
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
        var merge = Merge(strategy: strategy, thresholds: thresholds)
        do throws(TransformError) {
            try merge.run(local: sides.local, incoming: sides.incoming, in: &arena)
        } catch {
            return .refused
        }
        return Outcome(of: arena)
    }

    init(of arena: ChangesetArena) {
        self = .merged(arena.bytesOfAll, dirty: arena.changesets.map { arena.isDirty($0) })
    }
}
