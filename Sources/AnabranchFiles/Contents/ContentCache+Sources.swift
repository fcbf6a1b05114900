import AnabranchChunks
import Foundation

/// Contents of files of the disk, and what comes from pipes.
extension ContentCache {
    /// Takes the content of a file into chunks.
    func store(contentsOf url: URL, followsLinks: Bool = true) throws -> Manifest {
        try Self.read(url, followsLinks) { try store($0) }
    }

    /// Takes bytes into chunks.
    func store(_ data: Data) throws -> Manifest {
        var place = data.startIndex
        return try store { count in
            defer { place = min(place + count, data.endIndex) }
            return Array(data[place..<min(place + count, data.endIndex)])
        }
    }

    /// Makes what was written to a file durable, and closes it.
    static func flush(_ handle: FileHandle, _ path: String) throws {
        defer { try? handle.close() }
        guard fdatasync(handle.fileDescriptor) == 0 else { throw lastError(path) }
    }

    /// The chunks that a file would have. Nothing is stored.
    static func chunks(of url: URL) throws -> [ChunkHash] {
        try read(url, false) { next in
            var chunks: [ChunkHash] = []
            while true {
                let bytes = try next(Manifest.chunkBytes)
                if bytes.isEmpty { return chunks }
                chunks.append(ChunkHash(of: bytes))
            }
        }
    }

    private static func read<Value>(
        _ url: URL, _ followsLinks: Bool, _ body: ((Int) throws -> [UInt8]) throws -> Value
    ) throws -> Value {
        // To open a pipe would last until somebody writes into it.
        let flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | (followsLinks ? 0 : O_NOFOLLOW)
        let descriptor = open(url.path, flags)
        guard descriptor >= 0 else { throw lastError(url.path) }
        defer { Foundation.close(descriptor) }
        var status = stat(), place = 0
        guard fstat(descriptor, &status) == 0 else { throw lastError(url.path) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw SpaceError(.storageFailed, "\(url.path) is not a file") }
        return try body { count in
            let bytes = try read(descriptor, count, from: place, url.path)
            place += bytes.count
            return bytes
        }
    }

    /// Takes what comes from a pipe, or the rest of an open file, into chunks.
    func store(from input: Int32) throws -> Manifest {
        try store { count in
            var failed = false
            let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
                while filled < count {
                    let got = Foundation.read(input, buffer.baseAddress.map { $0 + filled }, count - filled)
                    if got < 0, errno == EINTR { continue }
                    failed = got < 0
                    guard got > 0 else { return }
                    filled += got
                }
            }
            if failed { throw Self.lastError("the input") }
            return bytes
        }
    }
}
