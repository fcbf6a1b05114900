import Foundation

/// Where tests make the folders that they remove: in memory, if the system has plenty for that.
package enum TestFolder {
    package static let parent: String = {
        let memory = "/dev/shm"
        var space = statvfs()
        let isLarge = statvfs(memory, &space) == 0 && UInt64(space.f_bavail) * UInt64(space.f_frsize) >= 2 << 30
        return isLarge && FileManager.default.isWritableFile(atPath: memory) ? memory : NSTemporaryDirectory()
    }()
}
