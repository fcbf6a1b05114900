import AnabranchHistory
import Foundation
import GRDB

/// The directory that a copy of a store is put into. No server starts on it before the copy is complete, and an
/// interrupted copy can be told from a backup.
final class CopyTarget {
    let directory: DataDirectory
    private let wasThere: Bool

    var url: URL { directory.url }

    /// - Parameters:
    ///   - purpose: the purpose of the directory, for people.
    ///   - isTemporary: whether the directory is removed with the copy, though it was there before.
    /// - Throws: `storeUnusable` if the directory has content that was not left by an interrupted copy.
    init(_ path: String, purpose: String, isTemporary: Bool = false) throws(HistoryError) {
        let url = URL(fileURLWithPath: path, isDirectory: true)
        wasThere = !isTemporary && FileManager.default.fileExists(atPath: path)
        try Self.refuseContent(of: url, purpose)
        directory = try DataDirectory(path)
        // Another process may have been quicker.
        try Self.refuseContent(of: url, purpose)
        do {
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
        } catch {
            throw HistoryError(.storeUnusable, "\(path): \(error.reasonOfSystem)")
        }
        removeFiles()
        try BackupRecord(stage: .copying).write(in: url)
    }

    private static func refuseContent(of url: URL, _ purpose: String) throws(HistoryError) {
        guard FileManager.default.fileExists(atPath: url.path) else { return }
        let names: Set<String>
        do {
            names = Set(try FileManager.default.contentsOfDirectory(atPath: url.path))
        } catch {
            throw HistoryError(.storeUnusable, "\(url.path): \(error.reasonOfSystem)")
        }
        var known: Set = [DataDirectory.lockName, BackupRecord.fileName + ".new"]
        if try BackupRecord.read(in: url)?.stage == .copying {
            known.formUnion(databases.flatMap { name in DataDirectory.suffixes.map { name + $0 } })
            known.formUnion(otherFiles + [contents])
        }
        guard let other = names.subtracting(known).min() else { return }
        throw HistoryError(
            .storeUnusable,
            "\(url.path) is not empty (\(other)): \(purpose) needs a directory that is empty or missing")
    }

    private static let databases =
        (0..<StoreManifest.shardsMax).map { DataDirectory.shardName($0) }
        + [DataDirectory.accountsName]

    private static let otherFiles =
        databases.map { BlockDelta.name(of: $0) }
        + [DataDirectory.keysName, StoreManifest.fileName, BackupRecord.fileName].flatMap { [$0, $0 + ".new"] }

    /// The folder with the contents of files, which are copied elsewhere.
    private static let contents = "chunks"

    /// The record goes last: as long as it is there, the other files are known.
    private func removeFiles() {
        try? FileManager.default.removeItem(atPath: directory.path(of: Self.contents))
        for name in Self.databases { directory.remove(name) }
        for name in Self.otherFiles { unlink(directory.path(of: name)) }
    }

    /// Reads the copy and checks all of it.
    /// - Parameters:
    ///   - fileCount: the number of synced files; they are counted unless it is given.
    ///   - others: looks for more damage.
    func damages(
        ofFiles fileCount: Int? = nil, and others: (StoreReader) throws(HistoryError) -> [StoreDamage] = { _ in [] },
        _ report: (StoreCopyProgress) throws -> Void
    ) throws(HistoryError) -> [StoreDamage] {
        let reader = try StoreReader(directory, isVerifying: true)
        let damages = try others(reader)
        var count = fileCount ?? 0
        if fileCount == nil { count = try reader.fileCount() }
        return try damages + StoreVerification(reader).damages(ofFiles: count, report)
    }

    /// Makes the copy a backup.
    func finish(_ record: BackupRecord) throws(HistoryError) {
        var record = record
        record.stage = .whole
        try record.write(in: url)
    }

    /// Removes the copy.
    func clear() {
        removeFiles()
        unlink(directory.path(of: DataDirectory.lockName))
        if !wasThere { rmdir(url.path) }
    }

    /// - Throws: `storeFailed` if there is no room for this many bytes.
    func checkSpace(for bytes: Int) throws(HistoryError) {
        guard let free = directory.freeBytes, free < bytes else { return }
        let sizes = [bytes, free].map { Int64($0).formatted(.byteCount(style: .binary)) }
        throw HistoryError(.storeFailed, "\(url.path): the copy needs \(sizes[0]), and the disk has \(sizes[1])")
    }
}
