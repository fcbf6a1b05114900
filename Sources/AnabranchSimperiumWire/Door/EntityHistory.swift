import AnabranchCore
import AnabranchHistory
import AnabranchSimperium

/// The step from one version of an entity to the next, with the former members.
struct EntityStep {
    var version: UInt64
    var kind: VersionRow.Kind
    var diff: ObjectDiff
    var before: EntityBody
}

extension PendingRecords {
    /// The most work that is done to find an old version, in bytes of records and contents.
    private static let historyBytesMax = 64 << 20

    /// The steps from one version of an entity to the newest, in their order.
    /// - Parameter body: what the newest version is; nil if it is deleted.
    /// - Returns: nil if one of the steps is not kept, or it would be too much work to go back so far.
    func steps(
        of key: String, in bucket: Bucket, after version: UInt64, to newest: EntityRow, _ body: EntityBody?
    ) throws(HistoryError) -> [EntityStep]? {
        guard version > 0, version <= newest.version else { return nil }
        var steps: [EntityStep] = [], content = body ?? [:], work = 0
        var bytes = version < newest.version ? JSONValue.object(content).encoded.utf8.count : 0
        var place = newest.version
        while place > version {
            guard let row = try self.version(place, key, of: bucket) else { return nil }
            bytes += row.byteCount
            work += bytes
            guard work <= Self.historyBytesMax,
                let before = try? row.reverse.applied(to: content)
            else { return nil }
            steps.append(EntityStep(version: place, kind: row.kind, diff: row.diff, before: before))
            content = before
            place -= 1
        }
        return steps.reversed()
    }

    /// An entity as it was at a version.
    /// - Parameter body: what the newest version is; nil if it is deleted.
    /// - Returns: nil if it is not kept, or the entity was deleted then.
    func entity(
        _ key: String, in bucket: Bucket, at version: UInt64, _ newest: EntityRow, _ body: EntityBody?
    ) throws(HistoryError) -> EntityBody? {
        guard let steps = try steps(of: key, in: bucket, after: version, to: newest, body) else { return nil }
        guard let next = steps.first else { return body }
        return next.kind == .creation ? nil : next.before
    }
}
