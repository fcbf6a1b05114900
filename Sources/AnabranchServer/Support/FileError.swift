import Foundation

/// Why a file cannot be used.
public struct FileError: Error, Equatable, Sendable, CustomStringConvertible {
    public let description: String

    init(_ path: String, _ reason: String) { description = "\(path): \(reason)" }

    /// What the system has just complained about.
    static func last(_ path: String) -> FileError { FileError(path, String(cString: strerror(errno))) }
}
