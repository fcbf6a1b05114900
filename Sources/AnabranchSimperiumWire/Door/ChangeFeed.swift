import AnabranchCore
import AnabranchHistory
import AnabranchSimperium

/// Changes in the form for one channel.
struct ToldChanges {
    /// The JSON of each message's changes, and what it tells.
    var changes: [Change] = []
    /// The point after the last of them.
    var through: ChangePlace
    /// True if nothing follows up to the requested point.
    var isComplete: Bool
}

extension BucketReader {
    /// How many changes a message may have.
    static let messageChangesMax = 100

    /// True if all changes of a bucket after a point are kept.
    func keepsChanges(of bucket: Bucket?, after place: ChangePlace) throws -> Bool {
        try records.keepsChanges(of: bucket, after: place)
    }

    /// The point that a client names; nil if it is none of the bucket's history, or not all changes after it are kept.
    /// - Parameter bucket: nil if nothing has been written to it.
    func place(of cv: String, of bucket: Bucket?, named name: String) throws -> ChangePlace? {
        guard let place = door.place(of: cv, in: name), try keepsChanges(of: bucket, after: place) else { return nil }
        return place
    }

    /// The changes of a bucket after a point, as many as one message may have.
    /// - Parameters:
    ///   - run: the points after and through which the whole answer goes.
    ///   - client: the client of the channel, if deletions by others are sent together with the creations that follow
    ///     them.
    func changes(
        of bucket: Bucket, after place: ChangePlace, in run: Range<ChangePlace>, foldedFor client: String?
    ) throws -> ToldChanges {
        let found = try records.changes(
            of: bucket, after: place, through: run.upperBound, countMax: Self.messageChangesMax)
        var told = ToldChanges(through: place, isComplete: found.count < Self.messageChangesMax), bytes = 64
        for change in found {
            if let folded = try folded(change, of: bucket, in: run, for: client) {
                bytes += folded.text.utf8.count + 1
                if !told.changes.isEmpty, bytes > Self.messageBytesMax {
                    told.isComplete = false
                    return told
                }
                told.changes.append(folded)
            }
            told.through = change.place
        }
        if told.isComplete { told.through = run.upperBound }
        return told
    }

    /// A change in the form for a client that would itself delete an entity which is created again after a deletion:
    /// nil for a deletion by another client if the creation is sent as well, and for the creation the difference from
    /// the deleted entity.
    private func folded(
        _ change: Change, of bucket: Bucket, in run: Range<ChangePlace>, for client: String?
    ) throws -> Change? {
        guard let client else { return change }
        if change.isDeletion {
            guard change.client != client,
                let next = try records.version(change.version + 1, change.key, of: bucket), next.kind == .creation,
                next.place <= run.upperBound
            else { return change }
            return nil
        }
        guard change.source == nil, change.version > 2,
            let deletion = try records.version(change.version - 1, change.key, of: bucket),
            deletion.kind == .deletion, deletion.place > run.lowerBound,
            try records.change(at: deletion.place, of: bucket)?.client != client,
            let creation = try records.version(change.version, change.key, of: bucket)
        else { return change }
        let old = try deletion.reverse.applied(to: [:])
        let new = try creation.diff.applied(to: [:])
        let text = Change.text(
            client: change.client, key: change.key, diff: ObjectDiff(from: old, to: new), to: new,
            from: change.version - 2, to: change.version, cv: door.cv(change.place, of: bucket.name),
            requests: change.requests)
        return try Change(text: text, place: change.place)
    }
}
