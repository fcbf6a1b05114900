import Foundation

/// Files that only their owner may read.
public enum PrivateFile {
    /// - Throws: `FileError` if there is no such file, or others could read it.
    static func check(_ path: String) throws {
        var status = stat()
        guard stat(path, &status) == 0 else { throw FileError.last(path) }
        guard status.st_mode & 0o077 == 0 else { throw FileError(path, "others can read it; its mode must be 0600") }
    }

    /// Writes beside the file and renames, so that whoever reads sees the old text or the new one.
    public static func write(_ text: String, to path: String) throws {
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
