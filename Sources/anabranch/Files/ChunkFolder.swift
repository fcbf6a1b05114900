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
    private var files: [String] {
        let names = FileManager.default.enumerator(atPath: path)?.compactMap { $0 as? String } ?? []
        // Folders of spaces are named by hashes, too.
        return names.filter { name in
            let parts = name.split(separator: "/")
            return parts.count == 4 && ChunkHash(hex: parts[3]) != nil
        }
    }

    /// Copies all chunks, durably. To be called when the store is copied: what that names was here before, and stays for days
    /// after its last use.
    /// - Returns: the number of chunks.
    func copy(to directory: String) throws -> Int {
        let target = ChunkFolder(of: directory).path, manager = FileManager.default
        var count = 0
        for name in files {
            let (source, copy) = ("\(path)/\(name)", "\(target)/\(name)")
            // It may have gone since.
            guard manager.fileExists(atPath: source), !manager.fileExists(atPath: copy) else { continue }
            let folder = URL(fileURLWithPath: copy).deletingLastPathComponent()
            try manager.createDirectory(
                at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            if link(source, copy) != 0 { try manager.copyItem(atPath: source, toPath: copy) }
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
        let files = files
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
