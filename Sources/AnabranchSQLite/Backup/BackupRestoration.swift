package import AnabranchHistory
import Foundation

/// Copies a backup to the place where a server is to serve it, and checks the copy. The backup itself stays as it is.
/// `StoreRestoration` does the rest; until then, no server starts on the copy (`Spec/Durability.md`, section 6).
package struct BackupRestoration {
    private let backup: BackupChain
    private let target: CopyTarget
    private let copyContents: () throws -> Void

    /// - Parameters:
    ///   - path: the path of a backup that `StoreBackup` has made.
    ///   - bases: where the bases of an incremental backup may be, if they are neither in their old place nor next to
    ///     it.
    ///   - directory: made if it is missing; it has to be empty otherwise. The remains of an interrupted call are
    ///     removed.
    ///   - copyContents: copies the contents of files, if nothing is damaged.
    /// - Throws: `storeUnusable` if there is no whole backup, not all that it needs, or something in the directory;
    ///   `storeFailed` if the backup is too large for the disk.
    package init(
        from path: String, bases: [String] = [], to directory: String, copyContents: @escaping () throws -> Void = {}
    ) throws(HistoryError) {
        let backup = try BackupChain(path, bases: bases)
        guard bases.isEmpty || backup.record.base != nil else { throw HistoryError.needsNoBase(path) }
        try self.init(backup, CopyTarget(directory, purpose: "restored data"), copyContents)
    }

    private init(
        _ backup: BackupChain, _ target: CopyTarget, _ copyContents: @escaping () throws -> Void = {}
    ) throws(HistoryError) {
        (self.backup, self.target, self.copyContents) = (backup, target, copyContents)
        do throws(HistoryError) {
            try target.checkSpace(for: byteTotal)
        } catch {
            target.clear()
            throw error
        }
    }

    private var byteTotal: Int { backup.record.files.reduce(0) { $0 + $1.bytes } }

    /// Copies and checks everything. All of it is durable when this returns.
    /// - Parameter report: called with the progress. If it throws, that is a `storeFailed`.
    /// - Returns: the damage in the backup; if there is any, the directory is as empty as before.
    /// - Throws: `storeFailed`, or `storeDamaged` if a file is not what was backed up; then the directory is empty,
    ///   too.
    package func run(
        _ report: (StoreCopyProgress) throws -> Void = { _ in }
    ) throws(HistoryError) -> [StoreDamage] {
        do throws(HistoryError) {
            try copy(report)
            let damages = try target.damages(report)
            if damages.isEmpty {
                try translatingErrors(in: "the contents of files") { try copyContents() }
                try target.finish(backup.record.madeWhole)
            } else {
                target.clear()
            }
            target.directory.release()
            return damages
        } catch {
            target.clear()
            throw error
        }
    }

    private func copy(_ report: (StoreCopyProgress) throws -> Void) throws(HistoryError) {
        var progress = StoreCopyProgress(step: .copying, done: 0, total: byteTotal)
        for file in backup.record.files {
            guard let content = try backup.content(of: file.name) else { continue }
            try CopiedFile.copy(content, to: target.directory.path(of: file.name)) { bytes in
                progress.done += bytes
                try report(progress)
            }
        }
    }

    /// Copies an incremental backup for reading only, to a directory of a random name that nobody else can use: it has
    /// keys and password hashes.
    /// - Parameter made: called with the directory before anything is in it.
    static func temporaryCopy(
        of path: String, bases: [String], _ made: (String) -> Void
    ) throws(HistoryError) -> CopyTarget {
        let backup = try BackupChain(path, bases: bases)
        let pattern = FileManager.default.temporaryDirectory.appendingPathComponent("anabranch-XXXXXX").path
        let buffer = strdup(pattern)
        defer { free(buffer) }
        guard let buffer, let name = mkdtemp(buffer) else {
            throw HistoryError(.storeFailed, "\(pattern): \(DataDirectory.lastError)")
        }
        let directory = String(cString: name)
        made(directory)
        let restoration = try Self(
            backup, CopyTarget(directory, purpose: "the backup made whole", isTemporary: true))
        do throws(HistoryError) {
            try restoration.copy { _ in }
            return restoration.target
        } catch {
            restoration.target.clear()
            throw error
        }
    }
}
