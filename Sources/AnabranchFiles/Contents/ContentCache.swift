import AnabranchChunks
import AnabranchCore
import Foundation
import GRDB
import Synchronization

/// The chunks on this device, in files of a folder, and the list of uploads that wait, in a database next to them.
/// Every call blocks for as long as the disk takes.
final class ContentCache: Sendable {
    /// A content that was written here and is not published yet.
    struct Pending: Equatable, Sendable {
        let file: UUID
        let content: Manifest
        /// The content that it was made from; nil for a new file.
        let base: ChunkHash?
        /// The name and folder of a new file.
        let name: String
        let parent: UUID?
        let modified: Date
        /// True if it is the loser of a conflict: a file of its own.
        let isCopy: Bool
    }

    private let folder: String
    /// The folder of contents that come past the cache.
    let drafts: String
    private let database: DatabaseQueue
    /// The most bytes of chunks that nothing holds.
    private let bytesMax: Int64
    /// The chunks of contents that are being written, and do not wait for upload yet: how many contents have each.
    private let arriving = Mutex<[ChunkHash: Int]>([:])
    /// The contents that were published from here, which may lose a conflict that is not known yet.
    let published = Mutex<[UUID: ChunkHash]>([:])

    /// - Throws: `SpaceError`.
    init(folder: String, bytesMax: Int64) throws {
        self.folder = folder
        drafts = folder + "/drafts"
        self.bytesMax = bytesMax
        do {
            for made in [folder + "/chunks", drafts] {
                try FileManager.default.createDirectory(
                    atPath: made, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            }
            ContentDraft.removeOld(in: drafts, isStart: true)
            var settings = GRDB.Configuration()
            settings.prepareDatabase { database in
                try database.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
            }
            settings.busyMode = .timeout(10)
            database = try DatabaseQueue(path: folder + "/files.db", configuration: settings)
            try database.write { database in
                try database.execute(
                    sql: """
                        CREATE TABLE IF NOT EXISTS chunk (hash BLOB PRIMARY KEY, bytes INTEGER, used INTEGER)
                            WITHOUT ROWID;
                        CREATE INDEX IF NOT EXISTS chunk_used ON chunk (used);
                        CREATE TABLE IF NOT EXISTS pending (
                            file BLOB PRIMARY KEY, content BLOB, base BLOB, name TEXT, parent BLOB, modified REAL,
                            is_copy INTEGER, number INTEGER);
                        CREATE TABLE IF NOT EXISTS published (file BLOB PRIMARY KEY, content BLOB);
                        CREATE TABLE IF NOT EXISTS pin (file BLOB PRIMARY KEY);
                        """)
            }
            let rows = try database.read { try Row.fetchAll($0, sql: "SELECT file, content FROM published") }
            for row in rows {
                guard let file = UUID(data: row["file"]), let content = Manifest(Array(row["content"] as Data)) else {
                    continue
                }
                published.withLock { $0[file] = content.id }
            }
            if try database.read({ try Int.fetchOne($0, sql: "PRAGMA user_version") }) == Self.isOpen {
                try removeStrays()
            }
            try database.write { try $0.execute(sql: "PRAGMA user_version = \(Self.isOpen)") }
        } catch {
            throw Self.failure(error)
        }
    }

    func close() throws {
        try database.write { try $0.execute(sql: "PRAGMA user_version = 0") }
        try database.close()
    }

    /// The mark of a database that was not closed.
    private static let isOpen = 1

    /// Removes the files that a killed process has left, and that nobody knows of: halves of chunks, and chunks of
    /// contents that `write` has not returned for.
    private func removeStrays() throws {
        let known = Set(try perform { try Data.fetchAll($0, sql: "SELECT hash FROM chunk") })
        let chunks = folder + "/chunks"
        for name in FileManager.default.enumerator(atPath: chunks)?.compactMap({ $0 as? String }) ?? [] {
            guard let last = name.split(separator: "/").last, last.count > 2 else { continue }
            if let chunk = ChunkHash(hex: last), known.contains(Data(chunk.bytes)) { continue }
            unlink("\(chunks)/\(name)")
        }
    }

    private func file(_ chunk: ChunkHash) -> String {
        let name = chunk.description
        return "\(folder)/chunks/\(name.prefix(2))/\(name)"
    }

    // MARK: Chunks

    /// The chunks of a content that are not here.
    func missing(of content: Manifest) throws -> [ChunkHash] { try missing(among: content.chunks) }

    private func missing(among chunks: [ChunkHash]) throws -> [ChunkHash] {
        try perform { database in
            let known = try database.cachedStatement(sql: "SELECT 1 FROM chunk WHERE hash = ?")
            var missing: [ChunkHash] = [], seen: Set<ChunkHash> = []
            for chunk in chunks where seen.insert(chunk).inserted {
                if try Row.fetchOne(known, arguments: [Data(chunk.bytes)]) == nil { missing.append(chunk) }
            }
            return missing
        }
    }

    func has(_ content: Manifest) throws -> Bool { try content != .awaited && missing(of: content).isEmpty }

    func has(_ chunk: ChunkHash) throws -> Bool {
        try perform { database in
            let hash = Data(chunk.bytes)
            return try Bool.fetchOne(database, sql: "SELECT 1 FROM chunk WHERE hash = ?", arguments: [hash]) ?? false
        }
    }

    /// The bytes of a chunk; nil if it is not here.
    func chunk(_ chunk: ChunkHash, in range: Range<Int>? = nil) throws -> [UInt8]? {
        let path = file(chunk), descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            guard errno == ENOENT else { throw Self.lastError(path) }
            try forget(chunk)
            return nil
        }
        defer { Foundation.close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Self.lastError(path) }
        let range = range ?? 0..<Int(status.st_size)
        let bytes = try Self.read(descriptor, range.count, from: range.lowerBound, path)
        guard bytes.count == range.count else {
            try forget(chunk)
            return nil
        }
        return bytes
    }

    /// Appends a chunk to an open file within the kernel: its bytes are not checked.
    /// - Returns: false, and nothing is appended, if it is not here, or the system cannot do that.
    func append(_ chunk: ChunkHash, to target: Int32) throws -> Bool {
        #if os(Linux)
        let path = file(chunk), descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { Foundation.close(descriptor) }
        var status = stat(), copied = 0
        guard fstat(descriptor, &status) == 0 else { throw Self.lastError(path) }
        while copied < Int(status.st_size) {
            let count = sendfile(target, descriptor, nil, Int(status.st_size) - copied)
            if count < 0, copied == 0, errno == EINVAL { return false }
            guard count > 0 else { throw Self.lastError(path) }
            copied += count
        }
        return true
        #else
        return false
        #endif
    }

    /// Keeps a chunk that has come from the server. A failure of the power may take its row back: then it comes again.
    func put(_ chunk: ChunkHash, _ bytes: [UInt8]) throws {
        try write(chunk, bytes)
        do {
            try database.writeWithoutTransaction { database in
                try database.execute(sql: "PRAGMA synchronous = NORMAL")
                let recorded = Result { try Self.record(chunk, bytes.count, database) }
                try database.execute(sql: "PRAGMA synchronous = FULL")
                try recorded.get()
            }
        } catch {
            throw Self.failure(error)
        }
    }

    private func write(_ chunk: ChunkHash, _ bytes: [UInt8]) throws {
        let path = file(chunk), draft = "\(path).\(UInt64.random(in: .min ... .max)).new"
        let descriptor = try Self.create(draft)
        defer {
            Foundation.close(descriptor)
            unlink(draft)
        }
        try bytes.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Foundation.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                guard count > 0 else { throw Self.lastError(draft) }
                rest = rest.dropFirst(count)
            }
        }
        guard fdatasync(descriptor) == 0, rename(draft, path) == 0 else { throw Self.lastError(path) }
    }

    static func record(_ chunk: ChunkHash, _ byteCount: Int, _ database: Database) throws {
        try database.execute(
            sql: "INSERT OR REPLACE INTO chunk VALUES (?, ?, ?)", arguments: [Data(chunk.bytes), byteCount, now])
    }

    private static func create(_ path: String) throws -> Int32 {
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC
        var descriptor = open(path, flags, 0o600)
        if descriptor < 0, errno == ENOENT {
            mkdir(URL(fileURLWithPath: path).deletingLastPathComponent().path, 0o700)
            descriptor = open(path, flags, 0o600)
        }
        guard descriptor >= 0 else { throw lastError(path) }
        return descriptor
    }

    /// Removes a chunk whose bytes are not its own any more.
    func remove(_ chunk: ChunkHash) throws {
        try forget(chunk)
        unlink(file(chunk))
    }

    private func forget(_ chunk: ChunkHash) throws {
        try perform { try $0.execute(sql: "DELETE FROM chunk WHERE hash = ?", arguments: [Data(chunk.bytes)]) }
    }

    /// Divides bytes into chunks and stores them. They are durable when this returns, and stay until `release` is
    /// called.
    /// - Parameter read: returns the next bytes: at most as many as requested, and fewer only at the end.
    func store(_ read: (Int) throws -> [UInt8]) throws -> Manifest {
        let held = Mutex<[ChunkHash]>([])
        let intake = ChunkIntake { [self] chunk, bytes in
            arriving.withLock { $0[chunk, default: 0] += 1 }
            held.withLock { $0.append(chunk) }
            let path = file(chunk)
            if access(path, F_OK) != 0 { try write(chunk, bytes) }
            return URL(fileURLWithPath: path).deletingLastPathComponent().path
        }
        do {
            var size: Int64 = 0, count = 0
            while true {
                let bytes = try read(Manifest.chunkBytes)
                if bytes.isEmpty { break }
                guard count < Manifest.chunksMax else { throw SpaceError(.tooLarge, "a file has at most 400 GB") }
                try intake.take(bytes)
                size += Int64(bytes.count)
                count += 1
                if bytes.count < Manifest.chunkBytes { break }
            }
            let (chunks, folders) = try intake.finish()
            for folder in folders { try Self.flush(folder) }
            guard let content = Manifest(size: size, chunks: chunks) else {
                throw SpaceError(.storageFailed, "the bytes of the content came in parts of another size")
            }
            return content
        } catch {
            _ = try? intake.finish()
            release(held.withLock { $0 })
            throw error
        }
    }

    /// Ends what `store` began: what does not wait for upload may go from here, and what nothing knows of goes.
    func release(_ chunks: [ChunkHash]) {
        arriving.withLock { arriving in
            var left: [ChunkHash] = []
            for chunk in chunks {
                guard let count = arriving[chunk] else { continue }
                arriving[chunk] = count > 1 ? count - 1 : nil
                if count == 1 { left.append(chunk) }
            }
            for chunk in (try? missing(among: left)) ?? [] { unlink(file(chunk)) }
        }
    }

    private static func flush(_ folder: String) throws {
        let descriptor = open(folder, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw lastError(folder) }
        defer { Foundation.close(descriptor) }
        guard fsync(descriptor) == 0 else { throw lastError(folder) }
    }

    func touch(_ chunks: [ChunkHash]) throws {
        try perform { database in
            for chunk in chunks {
                try database.execute(
                    sql: "UPDATE chunk SET used = ? WHERE hash = ?", arguments: [Self.now, Data(chunk.bytes)])
            }
        }
    }

    /// Removes chunks, those first that were used longest ago, until the cache has its size.
    /// - Parameter held: what handles and pins hold. What waits for upload is held as well.
    func evict(except held: [Manifest]) throws {
        let total = try perform { try Int64.fetchOne($0, sql: "SELECT sum(bytes) FROM chunk") } ?? 0
        guard total > bytesMax else { return }
        let kept = Set((held + (try pending().map(\.content))).flatMap(\.chunks))
        var rest = total, gone: [ChunkHash] = []
        try perform { database in
            let rows = try Row.fetchCursor(database, sql: "SELECT hash, bytes FROM chunk ORDER BY used")
            while rest > bytesMax, let row = try rows.next() {
                guard let chunk = ChunkHash(bytes: row["hash"] as Data), !kept.contains(chunk) else { continue }
                gone.append(chunk)
                rest -= row["bytes"] as Int64
            }
        }
        for chunk in gone {
            try arriving.withLock { arriving in
                guard arriving[chunk] == nil else { return }
                try forget(chunk)
                unlink(file(chunk))
            }
        }
    }

    // MARK: Support

    private static var now: Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }

    func perform<Value>(_ body: (Database) throws -> Value) throws -> Value {
        do {
            return try database.write(body)
        } catch {
            throw Self.failure(error)
        }
    }

    static func read(_ descriptor: Int32, _ count: Int, from place: Int, _ path: String) throws -> [UInt8] {
        var failed = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count {
                let read = pread(descriptor, buffer.baseAddress.map { $0 + filled }, count - filled, place + filled)
                failed = read < 0
                guard read > 0 else { return }
                filled += read
            }
        }
        if failed { throw lastError(path) }
        return bytes
    }

    static func lastError(_ path: String) -> SpaceError {
        let isFull = [ENOSPC, EDQUOT].contains(errno)
        return SpaceError(isFull ? .storageFull : .storageFailed, "\(path): \(String(cString: strerror(errno)))")
    }

    private static func failure(_ error: any Error) -> SpaceError {
        switch error {
        case let error as SpaceError: error
        case let error as DatabaseError where error.resultCode == .SQLITE_FULL: SpaceError(.storageFull, "\(error)")
        default: SpaceError(.storageFailed, "\(error)")
        }
    }
}

extension UUID {
    var data: Data { withUnsafeBytes(of: uuid) { Data($0) } }

    init?(data: Data) {
        guard data.count == 16 else { return nil }
        self.init(uuid: data.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) })
    }
}
