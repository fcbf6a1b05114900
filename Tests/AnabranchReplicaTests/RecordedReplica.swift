import AnabranchCore
import AnabranchReplica
import AnabranchTesting

/// A replica that is told, one after the other, the local transactions that a recorded client has uploaded.
///
/// The recorded client says of each version how far the server's log was integrated when it came about. That is all
/// that has to be known: it is made again when it is uploaded, or before a DOWNLOAD goes further.
struct RecordedReplica {
    private(set) var replica: Replica<MemoryReplicaStore>
    /// Ascending.
    private let transactions: [UploadedChangeset]
    /// The changesets that were uploaded in this session, and the recorded client has not uploaded yet.
    var ahead: [UploadedChangeset] = []

    /// - Parameter uploads: all that the recorded client has ever uploaded, in any order, and perhaps repeatedly. What
    ///   has made a version that is named without a changeset, no transcript shows: it becomes an empty transaction.
    init(_ uploads: [Upload]) throws {
        replica = try Replica(MemoryReplicaStore())
        var transactions: [ClientVersion: UploadedChangeset] = [:]
        for upload in uploads {
            let last = UploadedChangeset(cursor: upload.progress, timestamp: 0, changeset: [])
            transactions.merge((upload.changesets + [last]).map { ($0.cursor.clientVersion, $0) }) { old, new in
                old.changeset.isEmpty ? new : old
            }
        }
        self.transactions = transactions.values.sorted { $0.cursor.clientVersion < $1.cursor.clientVersion }
    }

    /// Lets a session work on the replica.
    mutating func with<Value>(_ body: (inout Replica<MemoryReplicaStore>) throws -> Value) rethrows -> Value {
        try body(&replica)
    }

    /// Makes the transactions up to a version that are not made yet.
    mutating func write(through version: ClientVersion) throws {
        for transaction in transactions where transaction.cursor.clientVersion > replica.version {
            guard transaction.cursor.clientVersion <= version,
                transaction.cursor.serverVersion == replica.progress.cursor.serverVersion
            else { return }
            try replica.commit(
                transaction.changeset, at: transaction.timestamp, as: transaction.cursor.clientVersion)
        }
    }

    mutating func integrate(_ download: Download) throws {
        if download.progress.cursor.serverVersion > replica.progress.cursor.serverVersion {
            try write(through: ClientVersion(rawValue: .max))
        }
        try replica.integrate(download)
    }
}
