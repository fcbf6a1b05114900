import CoreFoundation
package import Foundation

/// The reason why results cannot be written, in words for the person who named the file.
package struct OutputError: Error, CustomStringConvertible {
    package let description: String
}

/// A file that a person names for results; `-` is the standard output. Until everything is written it is called
/// PATH.partial, and what was at PATH stays there.
package struct OutputFile {
    private let path: String
    /// Nil for the standard output.
    private let file: UnsafeMutablePointer<FILE>?
    /// The path that is written to: PATH.partial, or PATH itself for a device or a pipe, which cannot be renamed.
    private let writtenPath: String

    /// - Parameter inputs: files that are read, and must not be overwritten.
    package init(_ path: String, reading inputs: [String] = []) throws(OutputError) {
        self.path = path
        var status = stat()
        let isSpecial = stat(path, &status) == 0 && status.st_mode & S_IFMT != S_IFREG
        writtenPath = isSpecial ? path : path + ".partial"
        for taken in [path, writtenPath] where inputs.contains(where: { Self.isSame($0, taken) }) {
            throw OutputError(description: "\(taken): cannot be written: it is what is read")
        }
        file = path == "-" ? nil : fopen(writtenPath, "w")
        if file == nil, path != "-" { throw failure }
    }

    /// True if both paths lead to the same file.
    private static func isSame(_ left: String, _ right: String) -> Bool {
        var (first, second) = (stat(), stat())
        guard stat(left, &first) == 0, stat(right, &second) == 0 else { return false }
        return first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }

    private var failure: OutputError {
        OutputError(description: "\(writtenPath): cannot be written: \(String(cString: strerror(errno)))")
    }

    package func write(_ bytes: Data) throws(OutputError) {
        guard let file else { return StandardOutput.write(bytes) }
        let count = bytes.withUnsafeBytes { fwrite($0.baseAddress, 1, $0.count, file) }
        guard count == bytes.count else { throw failure }
    }

    /// Closes the file and gives it its name, once everything is written.
    package func finish() throws(OutputError) {
        guard let file else { return }
        guard fclose(file) == 0 else { throw failure }
        if writtenPath != path, rename(writtenPath, path) != 0 { throw failure }
    }

    /// Closes the file, and removes it unless it is a device or a pipe.
    package func discard() {
        guard let file else { return }
        fclose(file)
        if writtenPath != path { unlink(writtenPath) }
    }
}
