import Foundation
import Synchronization

/// The tree of this repository, for tests that read it.
enum Repository {
    static let root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// All files below the given folders whose names end in `suffix`.
    static func files(in folders: String..., suffix: String = ".swift") throws -> [TextFile] {
        var files: [TextFile] = []
        for folder in folders {
            let paths = try FileManager.default.subpathsOfDirectory(atPath: root.appendingPathComponent(folder).path)
            for path in paths.sorted() where path.hasSuffix(suffix) && !exists("\(folder)/\(path)/") {
                files.append(try TextFile("\(folder)/\(path)"))
            }
        }
        return files
    }

    /// The folders directly below `folder`.
    static func folders(in folder: String) throws -> [String] {
        let names = try FileManager.default.contentsOfDirectory(atPath: root.appendingPathComponent(folder).path)
        return names.sorted().filter { exists("\(folder)/\($0)/") }
    }

    static func exists(_ path: String) -> Bool {
        var isFolder: ObjCBool = false
        let exists = FileManager.default.fileExists(
            atPath: root.appendingPathComponent(path).path, isDirectory: &isFolder)
        return exists && (isFolder.boolValue || !path.hasSuffix("/"))
    }

    /// The paths that git knows; none if this is no clone.
    static func trackedPaths() throws -> [String] {
        let git = Process()
        git.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        git.arguments = ["git", "-c", "safe.directory=*", "-C", root.path, "ls-files", "-z"]
        let output = Pipe()
        git.standardOutput = output
        git.standardError = FileHandle.nullDevice
        try git.run()
        let paths = try output.fileHandleForReading.readToEnd() ?? Data()
        git.waitUntilExit()
        return paths.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    }
}

struct TextFile {
    /// Relative to the root of the repository.
    let path: String
    let lines: [String]

    /// Those that were read: most tests look at most files.
    private static let read = Mutex<[String: TextFile]>([:])

    init(_ path: String) throws {
        if let file = Self.read.withLock({ $0[path] }) {
            self = file
            return
        }
        self.path = path
        let bytes = try Data(contentsOf: Repository.root.appendingPathComponent(path))
        var lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        if lines.last?.isEmpty == true { lines.removeLast() }
        self.lines = lines.map(String.init)
        Self.read.withLock { [file = self] in $0[path] = file }
    }

    var text: String { lines.joined(separator: "\n") }

    /// True if one of the texts is somewhere in it, in small letters: quicker to say than whether a pattern is.
    func mentions(_ texts: String...) -> Bool {
        let own = text.lowercased()
        return texts.contains { strstr(own, $0) != nil }
    }

    var name: String { String(path.split(separator: "/").last ?? "") }

    /// The places where a rule finds something, as "path:line: what".
    func places(_ rule: (String) -> String?) -> [String] {
        lines.enumerated().compactMap { index, line in rule(line).map { "\(path):\(index + 1): \($0)" } }
    }
}

extension Sequence<TextFile> {
    func places(_ rule: (String) -> String?) -> [String] { flatMap { $0.places(rule) } }
}

extension String {
    /// A line of Swift without what stands in its literals and its comment. With a pattern, all lines take longer to
    /// read than everything else together.
    var withoutLiteralsAndComment: String {
        let bytes = Array(utf8), quote = UInt8(ascii: "\""), slash = UInt8(ascii: "/")
        var code: [UInt8] = [], index = 0
        while index < bytes.count {
            if bytes[index] == slash, index + 1 < bytes.count, bytes[index + 1] == slash { break }
            code.append(bytes[index])
            if bytes[index] == quote {
                var end = index + 1
                while end < bytes.count, bytes[end] != quote { end += bytes[end] == UInt8(ascii: "\\") ? 2 : 1 }
                if end < bytes.count {
                    code.append(quote)
                    index = end
                }
            }
            index += 1
        }
        return String(decoding: code, as: UTF8.self)
    }
}

extension [String] {
    /// One a line, for the message of a failed expectation.
    var listed: String { "\n" + joined(separator: "\n") }
}
