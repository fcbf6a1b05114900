import Foundation

/// The reason why a file of the configuration cannot be used.
public struct FileError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The path and the reason; a line for each if there are several.
    public let description: String

    /// - Parameter reason: a line for each.
    init(_ path: String, _ reason: String) {
        description = reason.split(separator: "\n").map { "\(path): \($0)" }.joined(separator: "\n")
    }

    /// An error with the reason of the system call that has just failed.
    package static func last(_ path: String) -> FileError { FileError(path, String(cString: strerror(errno))) }
}
