import Foundation
import Testing

/// A program of `Models/` that reads lines and writes a line for each.
enum PythonModel {
    static func lines(of program: String, answering input: [String]) throws -> [Substring] {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        let models = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Models")
        process.arguments = ["python3", "-B", models.appending(path: program).path()]
        let (input, text) = (Pipe(), Data(input.map { $0 + "\n" }.joined().utf8))
        let output = Pipe()
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        Thread.detachNewThread {
            try? input.fileHandleForWriting.write(contentsOf: text)
            try? input.fileHandleForWriting.close()
        }
        let answers = try #require(try output.fileHandleForReading.readToEnd())
        process.waitUntilExit()
        return String(decoding: answers, as: UTF8.self).split(separator: "\n")
    }
}
