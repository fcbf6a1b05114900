import Foundation

/// The reason why a file of the configuration cannot be used.
public struct FileError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The path and the reason.
    public let description: String

    init(_ path: String, _ reason: String) { description = "\(path): \(reason)" }

    /// An error with the reason of the system call that has just failed.
    package static func last(_ path: String) -> FileError { FileError(path, String(cString: strerror(errno))) }
}
