import Foundation

/// The space that the downloads of a replica may take on a disk, so that no server can fill it.
public struct ReplicaSpace: Sendable {
    /// The size from which a replica's file takes no further DOWNLOAD, in bytes.
    public var fileBytesMax = 16 << 30
    /// The free space on its disk below which it takes no further DOWNLOAD, in bytes.
    public var freeBytesMin = 64 << 20

    /// The usual bounds.
    public init() {}

    /// The reason why there is no room for more; nil if there is room.
    /// - Parameter path: the path of the replica's file.
    func shortage(at path: String) -> String? {
        let bytes = Self.size(of: path) + Self.size(of: path + "-wal")
        guard bytes < fileBytesMax else { return "the replica has \(bytes) bytes, and may have \(fileBytesMax)" }
        guard let free = Self.freeBytes(at: path), free < freeBytesMin else { return nil }
        return "the disk has \(free) bytes free, and \(freeBytesMin) are to stay"
    }

    private static func size(of path: String) -> Int {
        var info = stat()
        return stat(path, &info) == 0 ? Int(info.st_size) : 0
    }

    private static func freeBytes(at path: String) -> Int? {
        var info = statvfs()
        guard statvfs(path, &info) == 0 else { return nil }
        return Int(clamping: UInt64(info.f_bavail).multipliedFullWidth(by: UInt64(info.f_frsize)).low)
    }
}
