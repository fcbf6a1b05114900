import Foundation

/// A fault of a file or a directory, in words for the person who named it.
struct InputError: Error, CustomStringConvertible {
    let description: String
}

/// Files that a person names.
enum TextInput {
    /// The lines of a file in UTF-8, which end with LF or CR LF.
    static func lines(ofFile path: String) throws(InputError) -> [String] {
        try text(ofFile: path).split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }.map(String.init)
    }

    /// The bytes of a file; - is the standard input.
    static func bytes(ofFile path: String) throws(InputError) -> Data {
        do {
            let handle = path == "-" ? FileHandle.standardInput : try FileHandle(forReadingFrom: URL(filePath: path))
            return try handle.readToEnd() ?? Data()
        } catch {
            throw InputError(description: "\(path): cannot be read")
        }
    }

    /// The text of a file in UTF-8.
    static func text(ofFile path: String) throws(InputError) -> String {
        guard let file = fopen(path, "r") else {
            throw InputError(description: "\(path): \(String(cString: strerror(errno)))")
        }
        defer { fclose(file) }
        guard let bytes = try? FileHandle(fileDescriptor: fileno(file)).readToEnd() ?? Data() else {
            throw InputError(description: "\(path): cannot be read")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw InputError(description: "\(path): is not text in UTF-8")
        }
        // Editors of Windows put a byte order mark first.
        return text.unicodeScalars.first == "\u{FEFF}" ? String(text.unicodeScalars.dropFirst()) : text
    }
}
