import Foundation

/// A program of others that writes a database: it carries out what it reads, then complains or not, and prints `done`.
final class WriterProcess: @unchecked Sendable {
    struct Complaint: Error, CustomStringConvertible {
        let description: String

        var isConstraint: Bool { description.contains("constraint failed") }
    }

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    private var unread = Data()

    /// The sqlite3 shell.
    convenience init(shell path: String) throws {
        try self.init(URL(filePath: "/usr/bin/sqlite3"), ["-cmd", ".timeout 10000", path])
    }

    /// A library for Python.
    convenience init(library: String) throws {
        let script = Self.root.appending(path: "Tests/Fixtures/capture/random_writer.py").path()
        try self.init(Self.root.appending(path: ".build/python/bin/python3"), ["-B", script, library])
    }

    private init(_ program: URL, _ arguments: [String]) throws {
        process.executableURL = program
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        process.standardError = output
        try process.run()
    }

    deinit { process.terminate() }

    /// Has the shell carry out statements.
    func execute(_ sql: String) throws { try ask("\(sql);\n.print done") }

    /// Has a library carry out a method.
    func call(_ method: String, _ arguments: [Any] = []) throws {
        let request = try JSONSerialization.data(withJSONObject: [method] + arguments)
        try ask(String(decoding: request, as: UTF8.self))
    }

    private func ask(_ request: String) throws {
        try input.fileHandleForWriting.write(contentsOf: Data("\(request)\n".utf8))
        var complaint: [String] = []
        while true {
            let line = try nextLine()
            if line == "done" { break }
            complaint.append(line)
        }
        if !complaint.isEmpty { throw Complaint(description: complaint.joined(separator: "\n")) }
    }

    private func nextLine() throws -> String {
        while true {
            if let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
                defer { unread.removeSubrange(...end) }
                return String(decoding: unread[..<end], as: UTF8.self)
            }
            let bytes = output.fileHandleForReading.availableData
            guard !bytes.isEmpty else {
                throw Complaint(description: "it has ended: \(String(decoding: unread, as: UTF8.self))")
            }
            unread.append(bytes)
        }
    }
}

/// The processes of libraries, each begun once: they take longer for it than for a hundred writes.
final class WriterProcesses {
    private var processes: [[String]: WriterProcess] = [:]

    /// - Parameter writer: the name of the writer that is the only one to have it.
    func process(of library: String, for writer: String) throws -> WriterProcess {
        if let known = processes[[library, writer]] { return known }
        let process = try WriterProcess(library: library)
        processes[[library, writer]] = process
        return process
    }
}
