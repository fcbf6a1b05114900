import AnabranchChunks
import AnabranchCore
import AnabranchFilesWire
import AnabranchHistory
import AnabranchSQLite
import CommandSupport
import Foundation

/// The chunks of files in a data directory or a backup. Their files never change, so a copy on the same disk is a link.
struct ChunkFolder {
    private let path: String

    init(of directory: String) { path = FolderChunkStore.folder(in: directory) }

    /// The files with chunks, below the folder: `SPACE/ab/cd/HASH`.
    /// - Throws: `InputError` if a folder cannot be listed.
    private func files() throws -> [String] {
        var names = try Self.names(in: path)
        for _ in 0..<3 {
            names = try names.flatMap { folder in try Self.names(in: "\(path)/\(folder)").map { "\(folder)/\($0)" } }
        }
        return names.filter { name in name.split(separator: "/").last.flatMap { ChunkHash(hex: $0) } != nil }
    }

    /// The names in a folder; none if it is gone, or is a file.
    private static func names(in folder: String) throws -> [String] {
        guard let stream = opendir(folder) else {
            if errno == ENOENT || errno == ENOTDIR { return [] }
            throw InputError(description: "\(folder): cannot be listed: \(String(cString: strerror(errno)))")
        }
        closedir(stream)
        return try FileManager.default.contentsOfDirectory(atPath: folder)
    }

    /// Copies all chunks, durably. To be called when the store is copied: what that names was here before, and stays
    /// for days after its last use.
    /// - Returns: the number of chunks.
    func copy(to directory: String) throws -> Int {
        let target = ChunkFolder(of: directory).path, manager = FileManager.default
        var count = 0
        for name in try files() {
            let (source, copy) = ("\(path)/\(name)", "\(target)/\(name)")
            guard !manager.fileExists(atPath: copy) else { continue }
            let folder = URL(fileURLWithPath: copy).deletingLastPathComponent()
            try manager.createDirectory(
                at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            if link(source, copy) != 0 {
                do { try manager.copyItem(atPath: source, toPath: copy) } catch {
                    // It may have been swept since it was listed: then nothing has named it for days.
                    guard manager.fileExists(atPath: source) else { continue }
                    throw error
                }
            }
            let label = name.split(separator: "/")[0] + "/path"
            if !manager.fileExists(atPath: "\(target)/\(label)") {
                try manager.copyItem(atPath: "\(path)/\(label)", toPath: "\(target)/\(label)")
            }
            count += 1
        }
        // The mark of a backup says that all of it is durable.
        if count > 0 { sync() }
        return count
    }

    /// The files of a synced file whose contents are not here, or not all of them.
    func missing(of path: VirtualPath, in state: ObjectGraph) throws -> [StoreDamage] {
        let store = FolderChunkStore(folder: self.path)
        var damages: [StoreDamage] = []
        try state.forEachContent { key, content in
            var missing: [ChunkHash] = []
            for (index, chunk) in content.chunks.enumerated()
            where store.size(of: chunk, of: path) != content.byteCount(ofChunk: index) { missing.append(chunk) }
            guard let first = missing.first else { return }
            damages.append(
                StoreDamage(
                    kind: .continuity, place: "file \(key)",
                    finding: "\(missing.count) of \(counted(content.chunks.count, "chunk")) missing or too short, "
                        + "the first of them \(first)"))
        }
        return damages
    }

    /// Compares the bytes of all chunks with their hashes.
    /// - Returns: those that are damaged, below the data directory, and the number of all.
    func check() throws -> (damaged: [String], count: Int) {
        let files = try files()
        let damaged = try files.filter { name in
            guard let file = FileHandle(forReadingAtPath: "\(path)/\(name)") else { return false }
            defer { try? file.close() }
            var digest = ChunkDigest()
            while let part = try file.read(upToCount: 1 << 20), !part.isEmpty {
                part.withUnsafeBytes { digest.update($0) }
            }
            return digest.hash.description != name.split(separator: "/").last ?? ""
        }
        return (damaged.map { "chunks/\($0)" }.sorted(), files.count)
    }
}
