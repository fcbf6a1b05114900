import AnabranchTesting
import CFaultFiles
import Foundation
import GRDB
import Synchronization

/// The databases of a folder, on a disk that forgets what was not flushed and fails when it is told to. It takes what
/// SQLite does from a VFS; what is to be observed has to be opened after this was made, and closed before it goes.
final class FaultFiles: Sendable {
    enum Call: CaseIterable {
        case open, write, truncate, sync, delete

        fileprivate init?(_ call: fault_files_call) {
            let calls: [(fault_files_call, Call)] = [
                (FAULT_FILES_OPEN, .open), (FAULT_FILES_WRITE, .write), (FAULT_FILES_TRUNCATE, .truncate),
                (FAULT_FILES_SYNC, .sync), (FAULT_FILES_DELETE, .delete),
            ]
            guard let found = calls.first(where: { $0.0 == call }) else { return nil }
            self = found.1
        }
    }

    /// The faults of a disk.
    enum Trouble: CaseIterable {
        /// EIO, once.
        case failure
        /// ENOSPC, until somebody makes room.
        case isFull

        /// The error that SQLite's VFS makes of it.
        fileprivate func code(of call: Call) -> ResultCode {
            switch (call, self) {
            case (.open, _): .SQLITE_CANTOPEN
            case (.write, .isFull): .SQLITE_FULL
            case (.write, .failure): .SQLITE_IOERR_WRITE
            case (.truncate, _): .SQLITE_IOERR_TRUNCATE
            case (.sync, _): .SQLITE_IOERR_FSYNC
            case (.delete, _): .SQLITE_IOERR_DELETE
            }
        }
    }

    /// A call that fails.
    struct Fault {
        var call: Call
        var trouble: Trouble
        /// How many such calls succeed before.
        var succeeding: Int
    }

    /// The files of the folder at one moment.
    struct Disk {
        fileprivate(set) var files: [String: UnflushedFile] = [:]
        fileprivate var lastWritten: String?

        /// The files after a loss of power; a file that is not there is nil.
        func image(
            of survivors: UnflushedFile.Survivors, using random: inout SeededRandom
        ) -> [String: [UInt8]?] {
            var image: [String: [UInt8]?] = [:]
            for (name, file) in files.sorted(by: { $0.key < $1.key }) {
                image[name] = .some(file.content(of: survivors, isLast: name == lastWritten, using: &random))
            }
            return image
        }
    }

    fileprivate struct State {
        var disk = Disk()
        var fault: Fault?
        var failureCount = 0
        var counts: [Call: Int] = [:]
        var beforeFlush: (@Sendable (Disk) -> Void)?
    }

    private let folder: String
    private let state = Mutex(State())
    /// For the VFS, from the end of the initializer on.
    private let registration = Mutex<Registration?>(nil)

    private struct Registration: @unchecked Sendable { var pointer: UnsafeMutableRawPointer }

    init(in path: String) throws {
        guard let resolved = realpath(path, nil) else { throw POSIXError(.ENOENT) }
        folder = String(cString: resolved)
        free(resolved)
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) where name.contains(".sqlite") {
            let content = try Data(contentsOf: URL(fileURLWithPath: folder + "/" + name))
            state.withLock { $0.disk.files[name] = UnflushedFile(flushed: Array(content)) }
        }
        let observe: fault_files_observer = { context, call, path, offset, bytes, count in
            guard let context, let path, let call = Call(call), let count else { return ResultCode.SQLITE_OK.rawValue }
            let files = Unmanaged<FaultFiles>.fromOpaque(context).takeUnretainedValue()
            let content = UnsafeRawBufferPointer(start: bytes, count: bytes == nil ? 0 : Int(count.pointee))
            let (code, written) = files.tell(call, String(cString: path), Int(offset), content)
            if code != .SQLITE_OK { count.pointee = Int32(written) }
            return code.rawValue
        }
        guard let pointer = fault_files_begin(folder, observe, Unmanaged.passUnretained(self).toOpaque()) else {
            throw POSIXError(.ENOMEM)
        }
        registration.withLock { $0 = Registration(pointer: pointer) }
    }

    deinit { registration.withLock { if let pointer = $0?.pointer { fault_files_end(pointer) } } }

    /// - Parameter body: is told of the disk before each flush that succeeds.
    func beforeFlush(_ body: @escaping @Sendable (Disk) -> Void) { state.withLock { $0.beforeFlush = body } }

    var disk: Disk { state.withLock(\.disk) }

    /// How many calls there were.
    func count(of call: Call) -> Int { state.withLock { $0.counts[call, default: 0] } }

    /// Has a call fail; nil: none does any more.
    func set(_ fault: Fault?) { state.withLock { $0.fault = fault } }

    /// How many calls have failed.
    var failureCount: Int { state.withLock(\.failureCount) }

    // MARK: What SQLite does

    /// - Returns: what SQLite is told, and how many bytes are written though the call fails.
    private func tell(
        _ call: Call, _ path: String, _ offset: Int, _ bytes: UnsafeRawBufferPointer
    ) -> (code: ResultCode, written: Int) {
        let name = String(path.dropFirst(folder.count + 1))
        // The observer may look at the store, but not at this.
        let observation = state.withLock { state -> (@Sendable (Disk) -> Void, Disk)? in
            guard call == .sync, state.fault == nil, let body = state.beforeFlush else { return nil }
            return (body, state.disk)
        }
        if let (body, disk) = observation { body(disk) }
        return state.withLock { state in
            if state.disk.files[name] == nil { state.disk.files[name] = UnflushedFile(flushed: nil) }
            state.counts[call, default: 0] += 1
            guard let trouble = state.trouble(of: call) else {
                state.carryOut(call, name, offset, bytes)
                return (.SQLITE_OK, 0)
            }
            state.failureCount += 1
            if call == .sync, trouble == .failure { state.disk.files[name]?.loseWrites() }
            guard call == .write else { return (trouble.code(of: call), 0) }
            let half = bytes.count / 2
            state.carryOut(.write, name, offset, UnsafeRawBufferPointer(rebasing: bytes[..<half]))
            return (trouble.code(of: call), half)
        }
    }
}

extension FaultFiles.State {
    /// - Returns: what this call meets; nil for nothing.
    fileprivate mutating func trouble(of call: FaultFiles.Call) -> FaultFiles.Trouble? {
        guard let fault, fault.call == call else { return nil }
        guard fault.succeeding == 0 else {
            self.fault?.succeeding -= 1
            return nil
        }
        if fault.trouble == .failure { self.fault = nil }
        return fault.trouble
    }

    fileprivate mutating func carryOut(
        _ call: FaultFiles.Call, _ name: String, _ offset: Int, _ bytes: UnsafeRawBufferPointer
    ) {
        switch call {
        case .open:
            guard let file = disk.files[name] else { return }
            var isThere = file.flushed != nil
            for write in file.writes { if case .removal = write { isThere = false } else { isThere = true } }
            if !isThere { disk.files[name]?.record(.size(0)) }
        case .write:
            disk.files[name]?.record(.bytes(Array(bytes), at: offset))
            disk.lastWritten = name
        case .truncate: disk.files[name]?.record(.size(offset))
        case .sync:
            disk.files[name]?.flush()
            for name in disk.files.keys { disk.files[name]?.flushRemovals() }
        case .delete: disk.files[name]?.record(.removal)
        }
    }
}
