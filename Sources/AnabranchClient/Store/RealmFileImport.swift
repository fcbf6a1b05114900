import AnabranchCore
import AnabranchRealmFile
import AnabranchReplica
import Foundation

/// Imports a Realm file into a new replica (`Spec/Replica.md`, section 6), whose file has another name until it is
/// complete. If a process ends before that, the next one removes the incomplete file.
struct RealmFileImport {
    /// The approximate size of the transactions in which objects are written, in lines and in bytes.
    private static let pieceLineCount = 1_000, pieceBytes = 1 << 20

    let realmPath: String
    let key: [UInt8]?
    /// The file of the replica.
    let path: String

    private var importing: String { path + ".importing" }

    /// Imports the file, unless the replica exists already or there is no Realm file.
    func run() async throws {
        guard !isDone else { return }
        let lock = try FileLock(of: path + ".import")
        defer { lock.release() }
        // Another process may have done it before the lock was taken.
        guard !isDone else { return }
        try removeLeftovers()
        let replica = try SyncedReplica(path: importing)
        do {
            try await fill(replica)
            try await replica.close()
        } catch {
            try? await replica.close()
            try removeLeftovers()
            throw error
        }
        guard !ReplicaReset.exists(importing + "-wal") else {
            throw ReplicaError(.inUse, "somebody reads \(importing)")
        }
        try ReplicaReset.rename(importing, path)
        try removeLeftovers()
        // The next one to get the lock finds that there is nothing to do.
        unlink(path + ".import.lock")
    }

    private var isDone: Bool {
        ReplicaReset.exists(path) || ReplicaReset.exists(ReplicaReset.readyPath(path))
            || !ReplicaReset.exists(realmPath)
    }

    private func removeLeftovers() throws(ReplicaError) {
        try ReplicaReset.remove(importing)
        unlink(importing + ".lock")
    }

    // MARK: Content

    private func fill(_ replica: SyncedReplica) async throws {
        let lines = try LineSpool(importing + ".lines")
        _ = try RealmFile(try mappedBytes(), key: key).export { try lines.write($0) }
        try lines.rewind()
        var classes: [ExportedClass] = [], piece: [ExportLine] = [], bytes = 0
        while let text = try lines.next() {
            switch try ExportLine(parsing: text) {
            case .header: break
            case .declaration(let declared): classes.append(declared)
            case .object(let className, let key, let fields):
                if !classes.isEmpty { try await add(&classes, to: replica) }
                piece.append(.object(className: className, key: key, fields: fields))
                bytes += text.count
            }
            if piece.count >= Self.pieceLineCount || bytes >= Self.pieceBytes {
                try await add(&piece, to: replica)
                bytes = 0
            }
        }
        try await add(&classes, to: replica)
        try await add(&piece, to: replica)
    }

    private func add(_ classes: inout [ExportedClass], to replica: SyncedReplica) async throws {
        let added = classes
        classes = []
        try await replica.write { try $0.add(added) }
    }

    private func add(_ piece: inout [ExportLine], to replica: SyncedReplica) async throws {
        let lines = piece
        piece = []
        try await replica.write { transaction in
            for case .object(let className, let key, let fields) in lines {
                do {
                    _ = try transaction.importObject(className, key, fields)
                } catch let error as LineError {
                    throw ReplicaError(.notAllowed, "an object of \(className) cannot be taken over: \(error)")
                }
            }
        }
    }

    private func mappedBytes() throws(ReplicaError) -> RealmFileBytes {
        let descriptor = open(realmPath, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(realmPath) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure(realmPath) }
        let count = Int(status.st_size)
        guard count > 0 else { return RealmFileBytes([]) }
        guard let start = mmap(nil, count, PROT_READ, MAP_PRIVATE, descriptor, 0), start != MAP_FAILED else {
            throw failure(realmPath)
        }
        return RealmFileBytes(at: UnsafeRawBufferPointer(start: start, count: count)) { munmap(start, count) }
    }
}

/// Lines in a file without a name, which is gone once it is closed.
private final class LineSpool {
    private let file: UnsafeMutablePointer<FILE>
    private let path: String
    private var buffer: UnsafeMutablePointer<CChar>?
    private var capacity = 0

    init(_ path: String) throws(ReplicaError) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0, unlink(path) == 0, let file = fdopen(descriptor, "w+") else { throw failure(path) }
        (self.file, self.path) = (file, path)
    }

    deinit {
        fclose(file)
        free(buffer)
    }

    func write(_ line: [UInt8]) throws(ReplicaError) {
        guard fwrite(line, 1, line.count, file) == line.count, fputc(0x0A, file) == 0x0A else { throw failure(path) }
    }

    /// Goes back to the first line, to read what was written.
    func rewind() throws(ReplicaError) {
        guard fseek(file, 0, SEEK_SET) == 0 else { throw failure(path) }
    }

    /// The next line, without its end; nil after the last one.
    func next() throws(ReplicaError) -> [UInt8]? {
        let count = getline(&buffer, &capacity, file)
        guard count > 0, let buffer else {
            guard feof(file) != 0 else { throw failure(path) }
            return nil
        }
        return Array(UnsafeRawBufferPointer(start: buffer, count: count - 1))
    }
}

private func failure(_ path: String) -> ReplicaError {
    ReplicaError(.storeFailed, "\(path): \(String(cString: strerror(errno)))")
}
