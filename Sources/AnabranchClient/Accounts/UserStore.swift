import Foundation
import Synchronization

/// Keeps the users of an app with their tokens, as one text. Anyone who can read it can act as these users.
public protocol UserStore: Sendable {
    /// The text that was written last; nil if nothing was.
    func read() throws -> String?
    /// Replaces the text as a whole, or throws and changes nothing.
    func write(_ text: String) throws
}

/// Keeps users in memory only: they have to log in again when the program starts.
public final class InMemoryUserStore: UserStore {
    private let text = Mutex<String?>(nil)

    /// A store without users.
    public init() {}

    /// See `UserStore`.
    public func read() -> String? { text.withLock { $0 } }

    /// See `UserStore`.
    public func write(_ text: String) { self.text.withLock { $0 = text } }
}

/// Keeps users in a file that only its owner may read.
public struct FileUserStore: UserStore {
    /// The file.
    public let path: String

    /// - Parameter path: the file, in a folder that exists. It is created when the first user logs in.
    public init(path: String) { self.path = path }

    /// See `UserStore`.
    public func read() throws -> String? {
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        return String(decoding: try Data(contentsOf: URL(fileURLWithPath: path)), as: UTF8.self)
    }

    /// Replaces the text. Readers see the old one or the new one: it is written to a file next to the old one, which is
    /// then renamed.
    public func write(_ text: String) throws {
        let draft = path + ".new"
        unlink(draft)
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        try file.write(contentsOf: Data(text.utf8))
        try file.synchronize()
        guard rename(draft, path) == 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
    }
}
