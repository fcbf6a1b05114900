import Foundation

/// The place for the temporary folders of tests: in memory if at least 2 GiB are free there.
package enum TestFolder {
    package static let parent: String = {
        let memory = "/dev/shm"
        var space = statvfs()
        let isLarge = statvfs(memory, &space) == 0 && UInt64(space.f_bavail) * UInt64(space.f_frsize) >= 2 << 30
        return isLarge && FileManager.default.isWritableFile(atPath: memory) ? memory : NSTemporaryDirectory()
    }()
}
