import Foundation

/// What is wrong with a file or a directory, in words for the person who named it.
struct InputError: Error, CustomStringConvertible {
    let description: String
}

/// Files that a person names.
enum TextInput {
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
            throw InputError(description: "\(path): is no text in UTF-8")
        }
        return text
    }
}
