package import AnabranchChunks
import AnabranchCore
package import AnabranchHistory
package import AnabranchServer
import Foundation
import NIOCore
import NIOPosix

/// Chunks in a folder of the server's disk: `SPACE/ab/cd/HASH`, where the name of SPACE is the hash of the path of the
/// synced file, which its file `path` has. Files have the mode 0600.
package struct FolderChunkStore: ChunkStore {
    /// How much of a chunk is in memory at once, in bytes.
    static let partBytes = 256 << 10

    /// The folder, which is made when the first chunk comes.
    package let folder: String
    private let threads = NIOThreadPool.singleton
    /// The thread that flushes one chunk after another: a commit of a log waits for all that is being flushed.
    private static let flushing = {
        let thread = NIOThreadPool(numberOfThreads: 1)
        thread.start()
        return thread
    }()

    package init(folder: String) { self.folder = folder }

    /// The folder in the data directory of a server.
    package static func folder(in data: String) -> String {
        URL(fileURLWithPath: data, isDirectory: true).appendingPathComponent("chunks").path
    }

    private func folder(of path: VirtualPath) -> String { "\(folder)/\(ChunkHash(of: path.bytes))" }

    private func file(_ chunk: ChunkHash, of path: VirtualPath) -> String {
        let name = chunk.description
        return "\(folder(of: path))/\(name.prefix(2))/\(name.dropFirst(2).prefix(2))/\(name)"
    }

    // MARK: Reading

    package func byteCount(of chunk: ChunkHash, of path: VirtualPath) async throws -> Int? {
        let file = file(chunk, of: path)
        return try await threads.runIfActive { Self.size(file) }
    }

    package func contains(_ chunk: ChunkHash, of path: VirtualPath) -> Bool { size(of: chunk, of: path) != nil }

    /// The size of a chunk, in bytes; nil if it is not here. It blocks.
    package func size(of chunk: ChunkHash, of path: VirtualPath) -> Int? { Self.size(file(chunk, of: path)) }

    private static func size(_ file: String) -> Int? {
        var status = stat()
        return stat(file, &status) == 0 ? Int(status.st_size) : nil
    }

    package func read(
        _ chunk: ChunkHash, of path: VirtualPath, in range: Range<Int>
    ) async throws -> EndpointStream? {
        let file = file(chunk, of: path)
        guard let open = try await threads.runIfActive({ OpenFile(reading: file) }) else { return nil }
        return EndpointStream(FileParts(file: open, range: range, threads: threads))
    }

    // MARK: Writing

    package func put(
        _ chunk: ChunkHash, of path: VirtualPath, byteCount: Int, _ parts: EndpointStream
    ) async throws {
        let space = folder(of: path), target = file(chunk, of: path)
        // One after the other: the first chunks of a file come together.
        let isNew = try await threads.runIfActive { Self.size(Self.pathFile(in: space)) == nil }
        if isNew { try await Self.flushing.runIfActive { try Self.make(space, of: path) } }
        let draft = try await threads.runIfActive {
            try Draft(at: "\(space)/\(chunk).\(UInt64.random(in: .min ... .max)).new")
        }
        var waiting = ByteBuffer(), digest = ChunkDigest(), count = 0
        func flush() async throws {
            let part = waiting
            part.withUnsafeReadableBytes { digest.update($0) }
            try await threads.runIfActive { try draft.write(part) }
            waiting.clear()
        }
        for try await var part in parts {
            count += part.readableBytes
            guard count <= byteCount else { throw ChunkError.wrongContent }
            waiting.writeBuffer(&part)
            if waiting.readableBytes >= Self.partBytes { try await flush() }
        }
        try await flush()
        guard count == byteCount, digest.hash == chunk else { throw ChunkError.wrongContent }
        try await Self.flushing.runIfActive { try draft.keep(as: target) }
    }

    private static func pathFile(in space: String) -> String { space + "/path" }

    /// Makes the folder of a synced file, unless there is one.
    private static func make(_ space: String, of path: VirtualPath) throws {
        do {
            for made in try Draft.makeFolder(space) { try Draft.flush(folderOf: made) }
            let file = pathFile(in: space)
            // The text of the path is printable, so it says to a reader what the folder is of.
            if size(file) == nil { try PrivateFile.write(path.description, to: file) }
        } catch let error as CocoaError where error.code == .fileWriteOutOfSpace {
            throw ChunkError.diskFull
        }
    }

    package func remove(_ chunk: ChunkHash, of path: VirtualPath) throws {
        let file = file(chunk, of: path)
        guard unlink(file) == 0 || errno == ENOENT else { throw FileError.last(file) }
    }

    // MARK: Listing

    package func paths() async throws -> [VirtualPath] {
        let folder = folder
        return try await threads.runIfActive {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            return names.sorted().compactMap { name in
                (try? String(contentsOfFile: Self.pathFile(in: "\(folder)/\(name)"), encoding: .utf8))
                    .flatMap { VirtualPath(description: $0) }
            }
        }
    }

    package func chunks(of path: VirtualPath, putBefore time: UInt64) async throws -> [ChunkHash] {
        let space = folder(of: path)
        return try await threads.runIfActive {
            var chunks: [ChunkHash] = []
            for name in FileManager.default.enumerator(atPath: space)?.compactMap({ $0 as? String }) ?? [] {
                let file = "\(space)/\(name)", last = name.split(separator: "/").last ?? ""
                var status = stat()
                guard stat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
                    status.st_mtim.tv_sec < Int(clamping: time)
                else { continue }
                if let chunk = ChunkHash(hex: last) { chunks.append(chunk) }
                // What a crash has left of a chunk that was coming in.
                if last.hasSuffix(".new"), last != "path.new" { unlink(file) }
            }
            return chunks
        }
    }
}

/// The descriptor of a file, closed when nobody has it.
final class OpenFile: Sendable {
    let descriptor: Int32

    init?(reading path: String) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0 { return nil }
    }

    deinit { close(descriptor) }

    /// - Throws: `EndpointStreamError.incomplete` if there are fewer bytes.
    func read(_ range: Range<Int>) throws -> ByteBuffer {
        var buffer = ByteBufferAllocator().buffer(capacity: range.count), place = range.lowerBound
        while place < range.upperBound {
            let count = buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: range.upperBound - place) {
                max(0, pread(descriptor, $0.baseAddress, range.upperBound - place, place))
            }
            guard count > 0 else { throw EndpointStreamError.incomplete }
            place += count
        }
        return buffer
    }
}

/// A part of a file, read as it is wanted.
private struct FileParts: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    let file: OpenFile
    let range: Range<Int>
    let threads: NIOThreadPool

    struct AsyncIterator: AsyncIteratorProtocol {
        let parts: FileParts
        var place: Int

        mutating func next() async throws -> ByteBuffer? {
            let file = parts.file
            let part = place..<Swift.min(parts.range.upperBound, place + FolderChunkStore.partBytes)
            guard !part.isEmpty else { return nil }
            place = part.upperBound
            return try await parts.threads.runIfActive { try file.read(part) }
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(parts: self, place: range.lowerBound) }
}

/// A file that is written and then gets its name; removed if it does not.
private final class Draft: Sendable {
    private let path: String
    private let descriptor: Int32

    init(at path: String) throws {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor < 0 { throw Self.lastError(path) }
    }

    deinit {
        close(descriptor)
        unlink(path)
    }

    func write(_ part: ByteBuffer) throws {
        try part.withUnsafeReadableBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Foundation.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                guard count > 0 else { throw Self.lastError(path) }
                rest = rest.dropFirst(count)
            }
        }
    }

    /// Makes it durable under another name.
    func keep(as target: String) throws {
        guard fsync(descriptor) == 0 else { throw Self.lastError(path) }
        let made = try Self.makeFolder(URL(fileURLWithPath: target).deletingLastPathComponent().path)
        guard rename(path, target) == 0 else { throw Self.lastError(target) }
        // What is in a folder that is not durable is not.
        for name in [target] + made { try Self.flush(folderOf: name) }
    }

    /// Makes a folder, and those around it.
    /// - Returns: those that were not there, the inner ones first.
    static func makeFolder(_ folder: String) throws -> [String] {
        let made = sequence(first: folder) { URL(fileURLWithPath: $0).deletingLastPathComponent().path }
            .prefix { $0 != "/" && !FileManager.default.fileExists(atPath: $0) }
        do {
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch let error as CocoaError where error.code == .fileWriteOutOfSpace {
            throw ChunkError.diskFull
        }
        return Array(made)
    }

    /// Makes the name of a file or folder durable.
    static func flush(folderOf target: String) throws {
        let folder = open(URL(fileURLWithPath: target).deletingLastPathComponent().path, O_RDONLY | O_CLOEXEC)
        guard folder >= 0 else { throw FileError.last(target) }
        defer { close(folder) }
        guard fsync(folder) == 0 else { throw FileError.last(target) }
    }

    private static func lastError(_ path: String) -> any Error {
        [ENOSPC, EDQUOT].contains(errno) ? ChunkError.diskFull : FileError.last(path)
    }
}
