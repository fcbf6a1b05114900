@preconcurrency import Dispatch
import Foundation

/// Signals when something changes in folders of the disk. Where the system has no such service, or its limit is
/// reached, there are no signals, and the mirror has to scan.
final class FolderWatch: Sendable {
    private let descriptor: Int32
    private let source: any DispatchSourceRead

    /// - Returns: nil if the system does not offer it.
    init?(_ bell: Bell) {
        #if os(Linux)
        descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
        guard descriptor >= 0 else { return nil }
        let descriptor = descriptor
        source = DispatchSource.makeReadSource(fileDescriptor: descriptor)
        source.setEventHandler {
            var events = [UInt8](repeating: 0, count: 64 << 10)
            // What has changed is found by looking.
            while read(descriptor, &events, events.count) > 0 {}
            bell.ring()
        }
        source.setCancelHandler { close(descriptor) }
        source.resume()
        #else
        return nil
        #endif
    }

    deinit { source.cancel() }

    /// Watches a folder, and not those in it. Nothing changes if it is watched already.
    /// - Returns: false if the system watches no more folders.
    func add(_ path: String) -> Bool {
        #if os(Linux)
        let kinds = IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR
        // That a folder can be read again is told of the one around it.
        return inotify_add_watch(descriptor, path, UInt32(kinds)) >= 0 || [ENOENT, ENOTDIR, EACCES].contains(errno)
        #else
        return false
        #endif
    }
}
