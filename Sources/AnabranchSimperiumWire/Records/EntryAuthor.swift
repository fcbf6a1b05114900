package import AnabranchCore
package import AnabranchHistory

extension SimperiumWire {
    /// The author of an entry of the log, as `simperium/USER/CLIENT`, or `simperium-shared/BUCKET/CLIENT`; nil if no
    /// client of this wire made it, or its change is not kept any more.
    package static func author(
        of version: ServerVersion, at path: VirtualPath, in records: PendingRecords
    ) throws(HistoryError) -> String? {
        guard let partition = path.partition, serves(partition) else { return nil }
        for bucket in try records.buckets() {
            let changes = try records.changes(
                of: bucket, after: .end(of: version - 1), through: .end(of: version), countMax: 100)
            if let change = changes.first(where: { $0.client != Change.otherClient }) {
                return "\(String(decoding: partition.dropFirst().dropLast(), as: UTF8.self))/\(change.client)"
            }
        }
        return nil
    }
}
