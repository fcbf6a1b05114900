import Foundation

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

    init(_ path: String) throws {
        self.path = path
        let bytes = try Data(contentsOf: Repository.root.appendingPathComponent(path))
        var lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        if lines.last?.isEmpty == true { lines.removeLast() }
        self.lines = lines.map(String.init)
    }

    var text: String { lines.joined(separator: "\n") }
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
    /// A line of Swift without what stands in its literals and its comment.
    var withoutLiteralsAndComment: String {
        let code = contains("\"") ? replacing(/"(?:\\.|[^"\\])*"/, with: "\"\"") : self
        return code.firstRange(of: "//").map { String(code[..<$0.lowerBound]) } ?? code
    }
}

extension [String] {
    /// One a line, for the message of a failed expectation.
    var listed: String { "\n" + joined(separator: "\n") }
}
