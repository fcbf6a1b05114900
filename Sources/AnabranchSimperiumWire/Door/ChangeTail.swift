/// Changes of a bucket between two points of the log, in the form for its channels.
struct ChangeBatch: Sendable {
    let changes: [Change]
    /// The JSON of all of them.
    let text: String
    /// True if every client gets them in this form: there is no deletion, and no creation that follows one.
    let isPlain: Bool

    init(_ changes: [Change]) {
        self.changes = changes
        text = Self.text(changes)
        isPlain = !changes.contains { $0.isDeletion || $0.source == nil && $0.version > 1 }
    }

    static func text(_ changes: [Change]) -> String { "[\(changes.map(\.text).joined(separator: ","))]" }
}

/// The newest changes of a file, read once for all its channels.
struct ChangeTail: Sendable {
    struct Step: Sendable {
        let after: ChangePlace
        let through: ChangePlace
        /// The changes of the buckets that were looked at; nil for one without any.
        let batches: [String: ChangeBatch?]
    }

    /// How many steps are kept, for channels that have not got them yet.
    private static let stepsMax = 64
    /// How many bytes the changes of all steps may have.
    private static let bytesMax = 1 << 20

    /// The number of the history.
    let salt: UInt64
    /// Each begins where the one before ends.
    private var steps: [Step] = []
    private var bytes = 0
    /// The end of the log when it was read last.
    private(set) var end: ChangePlace

    init(salt: UInt64, end: ChangePlace) {
        self.salt = salt
        self.end = end
    }

    mutating func append(_ step: Step) {
        steps.append(step)
        end = step.through
        bytes += step.bytes
        while steps.count > Self.stepsMax || bytes > Self.bytesMax && steps.count > 1 {
            bytes -= steps.removeFirst().bytes
        }
    }

    /// The changes of a bucket after a point.
    /// - Returns: nil if they are not all here.
    func batches(of bucket: String, after place: ChangePlace) -> [ChangeBatch]? {
        guard place < end else { return [] }
        guard let first = steps.lastIndex(where: { $0.after <= place }) else { return nil }
        var found: [ChangeBatch] = []
        for step in steps[first...] {
            guard let batch = step.batches[bucket] else { return nil }
            guard let batch else { continue }
            if place <= step.after {
                found.append(batch)
            } else {
                let rest = batch.changes.filter { $0.place > place }
                if !rest.isEmpty { found.append(ChangeBatch(rest)) }
            }
        }
        return found
    }
}

extension ChangeTail.Step {
    fileprivate var bytes: Int { batches.values.reduce(0) { $0 + ($1?.text.utf8.count ?? 0) } }
}

extension BucketReader {
    /// The changes of some buckets after a point.
    /// - Returns: nil if it is more than one message may have of a bucket, or not all of it is kept.
    func step(after place: ChangePlace, of buckets: some Sequence<String>) throws -> ChangeTail.Step? {
        var batches: [String: ChangeBatch?] = [:]
        for name in buckets {
            let bucket = try records.bucket(named: name)
            guard try keepsChanges(of: bucket, after: place) else { return nil }
            let changes = try bucket.map { bucket in
                try records.changes(
                    of: bucket, after: place, through: door.end, countMax: Self.messageChangesMax + 1)
            }
            guard let changes, !changes.isEmpty else {
                batches[name] = .some(nil)
                continue
            }
            let batch = ChangeBatch(changes)
            guard changes.count <= Self.messageChangesMax, batch.text.utf8.count < Self.messageBytesMax - 64 else {
                return nil
            }
            batches[name] = batch
        }
        return ChangeTail.Step(after: place, through: door.end, batches: batches)
    }
}
