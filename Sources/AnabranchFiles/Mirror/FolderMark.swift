import CAttributes
import Foundation

/// The mark by which a mirrored folder is known again at the next start: its inode, which the folders of two disks may
/// have in common, and a random number, which a copy of the folder may have. The number is an extended attribute, so
/// nothing of it is seen in the folder; on a disk that has no attributes it is that of the disk.
enum FolderMark {
    private static let attribute = "user.anabranch.mirror"

    /// The mark of a folder, which gets a number if it has none.
    static func mark(of path: String, _ status: stat) -> String {
        "\(status.st_ino) \(number(of: path) ?? setNewNumber(of: path) ?? diskNumber(of: path))"
    }

    private static func number(of path: String) -> String? {
        #if os(Linux)
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = getxattr(path, attribute, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : nil
        #else
        return nil
        #endif
    }

    /// - Returns: nil if the disk has no attributes, or the folder may not get one.
    static func setNewNumber(of path: String) -> String? {
        #if os(Linux)
        let number = UUID().uuidString
        return setxattr(path, attribute, number, number.utf8.count, 0) == 0 ? number : nil
        #else
        return nil
        #endif
    }

    private static func diskNumber(of path: String) -> String {
        var status = statvfs()
        return statvfs(path, &status) == 0 ? "of disk \(status.f_fsid)" : ""
    }
}
