import Foundation

/// Files that only their owner may read.
package enum PrivateFile {
    /// - Throws: `FileError` if there is no such file, or others could read it.
    static func check(_ path: String) throws {
        var status = stat()
        guard stat(path, &status) == 0 else { throw FileError.last(path) }
        guard status.st_mode & 0o077 == 0 else { throw FileError(path, "others can read it; its mode must be 0600") }
    }

    /// Replaces a file, or makes it, with mode 0600. Readers see either the old text or the new one, which is written
    /// to a file next to it that is then renamed.
    /// - Throws: `FileError`, or the system's error if the disk is full.
    package static func write(_ text: String, to path: String) throws {
        let draft = path + ".new"
        unlink(draft)
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw FileError.last(draft) }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        try file.write(contentsOf: Data(text.utf8))
        try file.synchronize()
        guard rename(draft, path) == 0 else { throw FileError.last(path) }
    }
}
