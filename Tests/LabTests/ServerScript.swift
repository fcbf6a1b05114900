import Foundation
import Testing

/// A shell script in place of the built server.
struct ServerScript {
    private let directory: URL

    var path: String { directory.appendingPathComponent("server").path }

    /// The ids of the processes in which it was started.
    var processes: [Int32] {
        get throws {
            let text = try String(contentsOf: directory.appendingPathComponent("processes"), encoding: .utf8)
            return text.split(separator: "\n").compactMap { Int32($0) }
        }
    }

    /// - Parameter body: may use $SERVER, the built server; $PROCESSES, a file with a line for each process of the
    ///   script; and $BEGUN, where it can write that it has begun.
    fileprivate init(_ body: String, in directory: URL) throws {
        self.directory = directory
        let names = ["processes", "begun"].map { directory.appendingPathComponent($0).path }
        let script = """
            #!/bin/sh
            SERVER='\(try LabProcess.server)' PROCESSES='\(names[0])' BEGUN='\(names[1])'
            echo $$ >> "$PROCESSES"
            \(body)

            """
        try Data(script.utf8).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
        #expect(mkfifo(names[1], 0o600) == 0)
    }

    /// Waits until a process of the script has written that it has begun.
    func waitUntilBegun() throws {
        let file = open(directory.appendingPathComponent("begun").path, O_RDWR)
        try #require(file >= 0)
        defer { close(file) }
        var wanted = pollfd(fd: file, events: Int16(POLLIN), revents: 0)
        #expect(poll(&wanted, 1, 120_000) == 1, "no process of the script says that it has begun")
    }
}

func withScript(_ body: String, _ use: (ServerScript) async throws -> Void) async throws {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    try await use(try ServerScript(body, in: directory))
}
