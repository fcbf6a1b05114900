import AnabranchHistory
import Foundation

/// A backup, together with the earlier ones that it needs if it is incremental.
final class BackupChain {
    let url: URL
    let record: BackupRecord
    /// The checksum of the record.
    let checksum: String
    /// The base of an incremental backup; nil for a whole one.
    private let base: BackupChain?
    /// The number of backups that belong together, including this one.
    var memberCount: Int { 1 + (base?.memberCount ?? 0) }

    /// The longest chain. All members have to be there, and each is read from its beginning to its end, when a backup
    /// is made, verified or restored.
    static let membersMax = 64

    /// - Parameters:
    ///   - path: the path of a backup that `StoreBackup` has made.
    ///   - places: where bases may be. They are looked for here first, then in their old place, then next to the
    ///     backup.
    /// - Throws: `storeUnusable` if there is no whole backup, or not all that it needs.
    init(_ path: String, bases places: [String]) throws(HistoryError) {
        url = URL(fileURLWithPath: path, isDirectory: true)
        try DataDirectory.checkReadable(path)
        try BackupRecord.refuseUnfinished(in: url)
        guard let record = try BackupRecord.read(in: url), let checksum = BackupRecord.checksum(in: path) else {
            throw HistoryError(
                .storeUnusable,
                """
                \(path) was not made by `anabranch backup`; to restore another copy, put it in the place of the data, \
                and run `anabranch restore` with --data alone
                """)
        }
        (self.record, self.checksum) = (record, checksum)
        base = if let base = record.base { try Self.find(base, of: url, places) } else { nil }
    }

    private static func find(
        _ base: BackupRecord.Base, of url: URL, _ places: [String]
    ) throws(HistoryError) -> BackupChain {
        // Backups in the same directory can be moved together.
        let beside = url.deletingLastPathComponent()
            .appendingPathComponent(URL(fileURLWithPath: base.path).lastPathComponent).path
        for path in places + [base.path, beside] where BackupRecord.checksum(in: path) == base.checksum {
            return try BackupChain(path, bases: places)
        }
        let isOther = BackupRecord.checksum(in: base.path) != nil
        let others = places.filter { $0 != url.path }.joined(separator: ", ")
        let given = others.isEmpty ? "" : "; --base names something else (\(others))"
        throw HistoryError(
            .storeUnusable,
            """
            \(url.path) holds what has changed since the backup \(base.path) of \(base.time), \
            \(isOther ? "and another backup is there now" : "which is not there")\(given): \
            say where it is with --base, or use another backup
            """)
    }

    /// The content of a file; nil if the file was not backed up.
    func content(of name: String) throws(HistoryError) -> BackupContent? {
        guard let file = record.files.first(where: { $0.name == name }) else { return nil }
        return try BackupContent(file, in: url, since: file.delta == nil ? nil : try base?.content(of: name))
    }
}
