import CAttributes
import Foundation

/// The mark by which a mirrored folder is known again at the next start: a random number, which a copy of the folder
/// may have; its inode, which the folders of two disks may have in common; and the time when it was made, since one
/// that takes its place may get the inode of the one that was removed. The number is an extended attribute, so nothing
/// of it is seen in the folder, or a file on a disk that has no attributes.
enum FolderMark {
    private static let attribute = "user.anabranch.mirror"
    private static let numberBytesMax = 64

    /// The mark of a folder, which gets a number if it has none.
    static func mark(of path: String, _ status: stat) -> String {
        let number =
            Self.number(of: path) ?? setNewNumber(of: path) ?? "\(numberInFile(of: path)) \(diskNumber(of: path))"
        return "\(status.st_ino) \(birthTime(of: path)) \(number)"
    }

    /// The time when a folder was made, in nanoseconds since 1970; 0 where it is not known.
    static func birthTime(of path: String) -> Int64 { anabranch_birth_time(path) }

    /// The number of the mount that a path is on, which tells one disk from another, and a folder that is bound to a
    /// place from what is there else. Where mounts have no numbers, it is that of the disk; 0 if it is not known.
    static func mount(of path: String) -> UInt64 {
        let number = anabranch_mount(path)
        return number != 0 ? number : FolderScan.status(path).map { UInt64(truncatingIfNeeded: $0.st_dev) } ?? 0
    }

    /// The number of a folder; nil if it has none as an attribute.
    static func number(of path: String) -> String? {
        #if os(Linux)
        var bytes = [UInt8](repeating: 0, count: numberBytesMax)
        let count = getxattr(path, attribute, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : nil
        #else
        return nil
        #endif
    }

    /// - Returns: nil if the disk has no attributes, or the folder may not get one.
    static func setNewNumber(of path: String, to number: String = UUID().uuidString) -> String? {
        #if os(Linux)
        return setxattr(path, attribute, number, number.utf8.count, 0) == 0 ? number : nil
        #else
        return nil
        #endif
    }

    /// The number in a file that no scan takes up; a new one each time if there can be no such file.
    static func numberInFile(of path: String) -> String {
        let file = "\(path)/.mirror\(FolderScan.draftEnding)", number = UUID().uuidString
        let descriptor = open(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return number }
        defer { close(descriptor) }
        let known = (try? ContentCache.read(descriptor, numberBytesMax, from: 0, file)) ?? []
        if !known.isEmpty { return String(decoding: known, as: UTF8.self) }
        _ = pwrite(descriptor, number, number.utf8.count, 0)
        return number
    }

    private static func diskNumber(of path: String) -> String {
        var status = statvfs()
        return statvfs(path, &status) == 0 ? "of disk \(status.f_fsid)" : ""
    }
}
