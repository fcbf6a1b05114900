import CFaultFiles
import Foundation
import Synchronization

/// The calls that SQLite makes to the files of a folder, from the first file on that it opens there.
final class ObservedFiles: Sendable {
    /// SQLite's reaction to a full disk.
    static let isFull: Int32 = 13

    private let body: @Sendable (_ number: Int) -> Int32
    private let callCount = Mutex(0)
    /// For the VFS, from the end of the initializer on.
    private let registration = Mutex<Registration?>(nil)

    private struct Registration: @unchecked Sendable { var pointer: UnsafeMutableRawPointer }

    /// - Parameter body: told of each call before it is made, with its number from 1; it returns 0, or the code that
    ///   SQLite gets in place of the call.
    init(in path: String, _ body: @escaping @Sendable (_ number: Int) -> Int32) throws {
        self.body = body
        guard let resolved = realpath(path, nil) else { throw POSIXError(.ENOENT) }
        defer { free(resolved) }
        let observe: fault_files_observer = { context, _, _, _, _, count in
            guard let context else { return 0 }
            let code = Unmanaged<ObservedFiles>.fromOpaque(context).takeUnretainedValue().tell()
            if code != 0 { count?.pointee = 0 }
            return code
        }
        guard let pointer = fault_files_begin(resolved, observe, Unmanaged.passUnretained(self).toOpaque()) else {
            throw POSIXError(.ENOMEM)
        }
        registration.withLock { $0 = Registration(pointer: pointer) }
    }

    deinit { registration.withLock { if let pointer = $0?.pointer { fault_files_end(pointer) } } }

    private func tell() -> Int32 {
        let number = callCount.withLock { count in
            count += 1
            return count
        }
        return body(number)
    }
}
