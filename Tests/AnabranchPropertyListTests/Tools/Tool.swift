import AnabranchPropertyList
import Foundation
import Testing

/// A program of others that converts property lists.
enum Tool: String, CaseIterable {
    /// CPython's own library.
    case plistlib
    /// The command of libplist.
    case plistutil
    /// The command of GNUstep.
    case gnustep
    /// Ruby's CFPropertyList.
    case cfpropertylist
    /// Java's dd-plist.
    case ddplist

    private var programs: URL {
        URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Programs")
    }

    /// The program and its arguments.
    private func command(to form: PropertyList.Form, of file: String = "") -> [String] {
        switch self {
        case .plistlib: [Self.python, "-B", programs.appending(path: "plistlib_tool.py").path()]
        // What comes from standard input and is long, it does not survive.
        case .plistutil: ["plistutil", "-f", form == .xml ? "xml" : "bin", "-i", file]
        // It opens no file by name.
        case .gnustep: ["plutil", "-convert", form == .xml ? "xml1" : "binary1", "-o", "-", "-"]
        case .cfpropertylist: ["ruby", programs.appending(path: "cfpropertylist_tool.rb").path()]
        case .ddplist:
            ["java", "-cp", "/usr/share/java/dd-plist.jar", programs.appending(path: "DDPlistTool.java").path()]
        }
    }

    /// Where `scripts/test` makes it.
    private static let python = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: ".build/python/bin/python3").path()

    /// Starts the program, if it converts more than one document.
    func start() throws -> any Converter {
        switch self {
        case .plistlib, .cfpropertylist, .ddplist: try FrameConverter(command(to: .xml))
        case .plistutil, .gnustep: CommandConverter { command(to: $0, of: $1) }
        }
    }
}

protocol Converter {
    /// The document in the other form, or in the same one, written anew.
    func convert(_ document: [UInt8], to form: PropertyList.Form) throws -> [UInt8]
}

struct ConversionError: Error {
    var reason: String
}

/// A program that takes one document after the other. A frame is what to write, `x` or `b`, the length in four bytes,
/// the highest first, and the document; the answer `o`, the length and the document, or `e`, the length and the reason.
private final class FrameConverter: Converter {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()

    init(_ command: [String]) throws {
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = command
        process.standardInput = input
        process.standardOutput = output
        try process.run()
    }

    deinit { process.terminate() }

    func convert(_ document: [UInt8], to form: PropertyList.Form) throws -> [UInt8] {
        let count = withUnsafeBytes(of: UInt32(document.count).bigEndian) { Array($0) }
        try input.fileHandleForWriting.write(contentsOf: Data((form == .xml ? "x" : "b").utf8 + count + document))
        let head = try read(5)
        let content = try read(head.dropFirst().reduce(0) { $0 << 8 | Int($1) })
        guard head.first == UInt8(ascii: "o") else {
            throw ConversionError(reason: String(decoding: content, as: UTF8.self))
        }
        return content
    }

    private func read(_ count: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let part = try output.fileHandleForReading.read(upToCount: count - bytes.count) ?? Data()
            guard !part.isEmpty else { throw ConversionError(reason: "the program has ended") }
            bytes += part
        }
        return bytes
    }
}

/// A program that is started for each document.
private struct CommandConverter: Converter {
    /// The command that writes a form of a file, which is also its standard input.
    let command: (PropertyList.Form, String) -> [String]

    func convert(_ document: [UInt8], to form: PropertyList.Form) throws -> [UInt8] {
        let file = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try Data(document).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let process = Process(), output = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = command(form, file.path())
        process.standardInput = try FileHandle(forReadingFrom: file)
        process.standardOutput = output
        try process.run()
        let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard process.terminationStatus == 0, !bytes.isEmpty else {
            throw ConversionError(reason: "exit status \(process.terminationStatus), \(bytes.count) bytes")
        }
        return Array(bytes)
    }
}
