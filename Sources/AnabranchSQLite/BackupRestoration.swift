public import AnabranchHistory
import Foundation

/// Copies a backup to where a server shall serve it, and checks the copy. The backup itself stays as it is.
/// `StoreRestoration` does the rest; before, no server starts on the copy (`Spec/Durability.md`, section 6).
public struct BackupRestoration {
    private let backup: URL
    private let record: BackupRecord
    private let target: CopyTarget

    /// - Parameters:
    ///   - path: of a backup that `StoreBackup` has made.
    ///   - directory: is made if it is missing, and has to be empty otherwise. What an interrupted call has left there
    ///     is removed.
    /// - Throws: `storeUnusable` if there is no whole backup, or something in the directory; `storeFailed` if the
    ///   backup is too large for the disk.
    public init(from path: String, to directory: String) throws(HistoryError) {
        backup = URL(fileURLWithPath: path, isDirectory: true)
        guard FileManager.default.fileExists(atPath: path) else {
            throw HistoryError(.storeUnusable, "\(path): no such directory")
        }
        try BackupRecord.refuseUnfinished(in: backup)
        guard let record = try BackupRecord.read(in: backup) else {
            throw HistoryError(
                .storeUnusable,
                """
                \(path) was not made by `anabranch backup`: put a copy of it in the place of the data, and run \
                `anabranch restore` with --data alone
                """)
        }
        self.record = record
        target = try CopyTarget(directory, purpose: "restored data")
        do throws(HistoryError) {
            try target.checkSpace(for: byteTotal)
        } catch {
            target.clear()
            throw error
        }
    }

    private var byteTotal: Int { record.files.reduce(0) { $0 + $1.bytes } }

    /// Copies and checks everything. All of it is on the disk when this returns.
    /// - Parameter report: is told how far it is. If it throws, that is a `storeFailed`.
    /// - Returns: what is wrong with the backup; then the directory is as empty as before.
    /// - Throws: `storeFailed`, or `storeDamaged` if a file is not what was backed up; then, too.
    public func run(
        _ report: (StoreCopyProgress) throws -> Void = { _ in }
    ) throws(HistoryError) -> [StoreDamage] {
        do throws(HistoryError) {
            let damages = try copy(report)
            if damages.isEmpty { try target.finish(record) } else { target.clear() }
            target.directory.release()
            return damages
        } catch {
            target.clear()
            throw error
        }
    }

    private func copy(_ report: (StoreCopyProgress) throws -> Void) throws(HistoryError) -> [StoreDamage] {
        var progress = StoreCopyProgress(step: .copying, done: 0, total: byteTotal)
        for file in record.files {
            try CopiedFile.copy(file, from: backup, to: target.url) { bytes in
                progress.done += bytes
                try report(progress)
            }
        }
        return try target.damages(report)
    }
}
