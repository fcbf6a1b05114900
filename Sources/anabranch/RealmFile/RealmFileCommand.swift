import AnabranchCore
import AnabranchRealmFile
import ArgumentParser
import CommandSupport
import Foundation

struct RealmFileCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "realm-file",
        abstract: "Read the Realm files of devices, without Realm.",
        discussion: """
            A team that has lost its server often has the only copy of its data in .realm files: on devices, in their \
            backups, bundled with an app. Files of the formats 22 to 24 are read as the reference reads them; those of \
            10, 11, 20 and 21 by the description of the format, which a line on standard error says then \
            (Spec/RealmFile.md). Nothing is ever written to them.

            EXAMPLES
              anabranch realm-file info notes.realm
              anabranch realm-file export notes.realm > notes.jsonl
              anabranch realm-file pending notes.realm
            """,
        subcommands: [RealmFileInfoCommand.self, RealmFileExportCommand.self, RealmFilePendingCommand.self])
}

/// Which file, and how to read it: what all of these commands take.
struct RealmFileOptions: ParsableArguments {
    @Argument(help: "A Realm file.")
    var file: String

    @Option(help: ArgumentHelp("The key of an encrypted file: 64 bytes, or 128 hexadecimal digits.", valueName: "file"))
    var keyFile: String?

    @Flag(help: "Leave out what is damaged, and name it, instead of ending there; the exit status is 1 then.")
    var salvage = false

    /// Opens the file, and runs `body` with it. Errors say which file it is.
    func read<Result>(_ body: (RealmFile) throws -> Result) throws -> Result {
        try explainingErrors {
            try refuseOthersByName()
            return try body(try RealmFile(try bytes(), key: try key()))
        }
    }

    private func explainingErrors<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as RealmFileError {
            let advice =
                switch error.code {
                case .keyMissing: " Give the key with --key-file."
                case .damaged where !salvage: " With --salvage the rest is read."
                case .outputLimit: " With --output-limit they may be longer."
                default: ""
                }
            throw InputError(description: "\(file): \(error)\(advice.isEmpty ? "" : "." + advice)")
        }
    }

    /// The files that Realm keeps beside a file of data.
    private func refuseOthersByName() throws {
        let others = [".lock": "the lock file", ".note": "a pipe", ".management": "a folder"]
        for (ending, what) in others where file.hasSuffix(".realm" + ending) {
            throw InputError(
                description: "\(file): it is \(what) beside a Realm file, and has no data: "
                    + "read \(file.dropLast(ending.count))")
        }
    }

    private func key() throws -> [UInt8]? {
        guard let keyFile else { return nil }
        guard let content = FileManager.default.contents(atPath: keyFile) else {
            throw InputError(description: "\(keyFile): cannot be read")
        }
        let digits = String(decoding: content, as: UTF8.self).filter { !$0.isWhitespace }
        let key = content.count == 64 ? Array(content) : Hex.decode(digits) ?? []
        guard key.count == 64 else {
            throw InputError(description: "\(keyFile): a key is 64 bytes, or 128 hexadecimal digits")
        }
        return key
    }

    /// Maps the file, which may be larger than memory; what is no regular file, as a pipe, is read.
    private func bytes() throws -> RealmFileBytes {
        guard let handle = FileHandle(forReadingAtPath: file) else { throw unreadable() }
        defer { try? handle.close() }
        let values = try? URL(fileURLWithPath: file).resourceValues(forKeys: [.isRegularFileKey, .isDirectoryKey])
        guard values?.isDirectory != true else { throw InputError(description: "\(file): is a folder") }
        guard values?.isRegularFile == true, let size = try? handle.seekToEnd(), size > 0 else {
            guard let content = try? handle.readToEnd() ?? Data() else { throw unreadable() }
            return RealmFileBytes(content)
        }
        let count = Int(size)
        guard let start = mmap(nil, count, PROT_READ, MAP_PRIVATE, handle.fileDescriptor, 0), start != MAP_FAILED else {
            throw unreadable()
        }
        return RealmFileBytes(at: UnsafeRawBufferPointer(start: start, count: count)) { munmap(start, count) }
    }

    private func unreadable() -> InputError { InputError(description: "\(file): \(String(cString: strerror(errno)))") }

    /// Tells what was left out, and what has never been compared with the reference.
    func tell(_ problems: [RealmFileError], count: Int, notSeen: [String]) {
        for problem in problems { StandardError.write("\(file): left out: \(problem)\n") }
        if count > problems.count { StandardError.write("\(file): left out: \(count - problems.count) more\n") }
        for what in notSeen {
            StandardError.write("\(file): not seen in any file that this reader was compared with: \(what)\n")
        }
    }
}
