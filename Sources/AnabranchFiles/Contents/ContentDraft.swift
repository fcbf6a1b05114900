import AnabranchChunks
import CAttributes
import Foundation

/// A content that comes past the cache: a file in the folder of the cache, which gets the place of a copy when it is
/// complete, so that each byte is written once. After a restart its chunks are found by their hashes. Every call blocks
/// for as long as the disk takes.
final class ContentDraft: Sendable {
    /// The chunk of zeros, which needs no room on the disk.
    static let zeros = ChunkHash(of: [UInt8](repeating: 0, count: Manifest.chunkBytes))
    /// A draft that nobody has gone on with for so long is given up, in seconds.
    private static let keptSeconds = 7 * 86_400

    /// True if nothing had come before.
    let isNew: Bool
    private let content: Manifest
    private let path: String
    private let descriptor: Int32
    /// The draft as an open file, which whoever gets the complete content closes. Nothing else keeps it open: a mirror
    /// would take the end of that, if the file has its name by then, for somebody's writing.
    let handle: FileHandle
    /// The numbers of the places at which a chunk stands.
    private let places: [ChunkHash: [Int]]
    private let onChunk: @Sendable () -> Void

    /// Opens what has come of a content, or begins a draft.
    /// - Parameters:
    ///   - folder: of all drafts.
    ///   - onChunk: called for each chunk that is read or written.
    init(_ content: Manifest, in folder: String, onChunk: @escaping @Sendable () -> Void) throws {
        self.content = content
        self.onChunk = onChunk
        path = "\(folder)/\(content.id)"
        var descriptor = open(path, O_RDWR | O_CLOEXEC)
        isNew = descriptor < 0
        if isNew {
            Self.removeOld(in: folder)
            descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        }
        guard descriptor >= 0 else { throw ContentCache.lastError(path) }
        // Somebody goes on with it.
        futimens(descriptor, nil)
        self.descriptor = descriptor
        handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        places = Dictionary(grouping: content.chunks.indices) { content.chunks[$0] }
    }

    /// The chunks that have come, in all their places.
    func chunks() throws -> Set<ChunkHash> {
        var found = Set(content.chunks)
        for (index, chunk) in content.chunks.enumerated() where found.contains(chunk) && chunk != Self.zeros {
            let count = content.byteCount(ofChunk: index)
            let bytes = try ContentCache.read(descriptor, count, from: index * Manifest.chunkBytes, path)
            if ChunkHash(of: bytes) != chunk { found.remove(chunk) }
            onChunk()
        }
        return found
    }

    /// Takes chunks from a file that may have some, such as the one that the copy replaces.
    /// - Returns: those that it had.
    func take(_ wanted: Set<ChunkHash>, from file: String) throws -> Set<ChunkHash> {
        let source = open(file, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC)
        guard source >= 0 else { return [] }
        defer { close(source) }
        var status = stat(), taken: Set<ChunkHash> = []
        guard fstat(source, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return [] }
        for place in stride(from: 0, to: Int(status.st_size), by: Manifest.chunkBytes) {
            if taken.count == wanted.count { break }
            onChunk()
            guard let bytes = try? ContentCache.read(source, Manifest.chunkBytes, from: place, file) else { continue }
            let chunk = ChunkHash(of: bytes)
            guard wanted.contains(chunk), !taken.contains(chunk) else { continue }
            try write(bytes, of: chunk)
            taken.insert(chunk)
        }
        return taken
    }

    /// Writes a chunk to all its places.
    func write(_ bytes: [UInt8], of chunk: ChunkHash) throws {
        for index in places[chunk] ?? [] where chunk != Self.zeros {
            guard bytes.count == content.byteCount(ofChunk: index) else {
                throw SpaceError(.damaged, "a part of the content has another size than its manifest says")
            }
            try Self.write(bytes, to: descriptor, at: index * Manifest.chunkBytes, path)
            onChunk()
        }
    }

    /// Gives the complete content the place of an empty file, with its group and its rights.
    func move(to target: String) throws -> FileHandle {
        var status = stat()
        guard ftruncate(descriptor, off_t(content.size)) == 0 else { throw ContentCache.lastError(path) }
        guard stat(target, &status) == 0 else { throw ContentCache.lastError(target) }
        _ = fchown(descriptor, .max, status.st_gid)
        fchmod(descriptor, status.st_mode & 0o777)
        if rename(path, target) == 0 { return handle }
        guard errno == EXDEV else { throw ContentCache.lastError(target) }
        let handle = try copy(to: target)
        unlink(path)
        return handle
    }

    /// Copies it to another disk.
    private func copy(to target: String) throws -> FileHandle {
        let copy = open(target, O_RDWR | O_CLOEXEC)
        guard copy >= 0 else { throw ContentCache.lastError(target) }
        let handle = FileHandle(fileDescriptor: copy, closeOnDealloc: true)
        for (index, chunk) in content.chunks.enumerated() where chunk != Self.zeros {
            let place = index * Manifest.chunkBytes
            let bytes = try ContentCache.read(descriptor, content.byteCount(ofChunk: index), from: place, path)
            try Self.write(bytes, to: copy, at: place, target)
            onChunk()
        }
        guard ftruncate(copy, off_t(content.size)) == 0 else { throw ContentCache.lastError(target) }
        return handle
    }

    /// Writes bytes, and has the disk begin with them: otherwise it would begin when the whole content is flushed.
    private static func write(_ bytes: [UInt8], to descriptor: Int32, at place: Int, _ path: String) throws {
        try bytes.withUnsafeBytes { bytes in
            var written = 0
            while written < bytes.count {
                let rest = bytes[written...]
                let count = pwrite(
                    descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count, off_t(place + written))
                guard count > 0 else { throw ContentCache.lastError(path) }
                written += count
            }
        }
        anabranch_begin_flush(descriptor, Int64(place), Int64(bytes.count))
    }

    /// Removes drafts that nobody goes on with.
    /// - Parameter isStart: true to remove also what is no draft: what a process was reading that has ended.
    static func removeOld(in folder: String, isStart: Bool = false) {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
            var status = stat()
            guard lstat("\(folder)/\(name)", &status) == 0 else { continue }
            let isOld = Int(status.st_mtim.tv_sec) < Int(Date().timeIntervalSince1970) - keptSeconds
            if isOld || isStart && ChunkHash(hex: name) == nil { unlink("\(folder)/\(name)") }
        }
    }
}
