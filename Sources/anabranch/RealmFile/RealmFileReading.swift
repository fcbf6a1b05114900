import AnabranchCore
import AnabranchRealmFile
import ArgumentParser
import CommandSupport
import Foundation

/// The options for reading a Realm file.
struct RealmFileReading: ParsableArguments {
    @Option(help: ArgumentHelp("The key of an encrypted file: 64 bytes, or 128 hexadecimal digits.", valueName: "file"))
    var keyFile: String?

    @Flag(help: "Leave out what is damaged, and name it, instead of ending there; the exit status is 1 then.")
    var salvage = false

    /// Opens a file, and runs `body` with it. Errors say which file it is.
    func read<Result>(_ file: String, _ body: (RealmFile) throws -> Result) throws -> Result {
        try explainingErrors(of: file) {
            try Self.refuseOthersByName(file)
            return try body(try RealmFile(try Self.bytes(of: file), key: try key()))
        }
    }

    private func explainingErrors<Result>(of file: String, _ body: () throws -> Result) throws -> Result {
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

    /// Refuses the files that Realm keeps next to a data file.
    private static func refuseOthersByName(_ file: String) throws {
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
            throw InputError(
                description: """
                    \(keyFile): a key is 64 bytes, or 128 hexadecimal digits, and here are \(content.count) bytes
                    """)
        }
        return key
    }

    /// Maps the file, which may be larger than memory; anything but a regular file, such as a pipe, is read.
    private static func bytes(of file: String) throws -> RealmFileBytes {
        guard let handle = FileHandle(forReadingAtPath: file) else { throw unreadable(file) }
        defer { try? handle.close() }
        let values = try? URL(fileURLWithPath: file).resourceValues(forKeys: [.isRegularFileKey, .isDirectoryKey])
        guard values?.isDirectory != true else { throw InputError(description: "\(file): is a folder") }
        guard values?.isRegularFile == true, let size = try? handle.seekToEnd(), size > 0 else {
            guard let content = try? handle.readToEnd() ?? Data() else { throw unreadable(file) }
            return RealmFileBytes(content)
        }
        let count = Int(size)
        guard let start = mmap(nil, count, PROT_READ, MAP_PRIVATE, handle.fileDescriptor, 0), start != MAP_FAILED else {
            throw unreadable(file)
        }
        return RealmFileBytes(at: UnsafeRawBufferPointer(start: start, count: count)) { munmap(start, count) }
    }

    private static func unreadable(_ file: String) -> InputError {
        InputError(description: "\(file): \(String(cString: strerror(errno)))")
    }

    /// Reports what was left out, and what has never been compared with the reference.
    static func tell(of file: String, _ problems: [RealmFileError], count: Int, notSeen: [String]) {
        for problem in problems { StandardError.write("\(file): left out: \(problem)\n") }
        if count > problems.count { StandardError.write("\(file): left out: \(count - problems.count) more\n") }
        for what in notSeen {
            StandardError.write("\(file): not seen in any file that this reader was compared with: \(what)\n")
        }
    }
}

extension RealmFile {
    /// The reason why nothing in the file waits for upload, if it is not the file of a sync client.
    var reasonForNoUploads: String {
        switch history {
        case .syncServer: "it is a file of a Realm Object Server: only those of devices have what was never uploaded"
        case .unknown(let kind): "its history is of the kind \(kind), which is not known"
        case .none, .outside, .local, .syncClient: "it is a local file, which uploads nothing"
        }
    }
}
