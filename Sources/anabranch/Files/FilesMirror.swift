import AnabranchCore
import AnabranchFiles
import ArgumentParser
import CommandSupport
import Foundation
import UnixSignals

/// `anabranch files mirror`.
struct FilesMirror: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mirror",
        abstract: "Keep a folder of the disk equal to the space, both ways.",
        discussion: """
            Runs until SIGINT or SIGTERM; with --once it ends when both are equal and uploaded. What has changed in \
            the folder goes to the space, and what has changed there comes into the folder. A file that has changed on \
            both sides stays twice, that of the folder under a name with this device and the day. A file that is \
            moved or renamed stays the same file.

            Links, special files and disks that are mounted in the folder are left alone, and nothing outside of it is \
            touched. A name that the disk cannot have is reported on standard error and skipped. What the folder and \
            the space had in common is remembered beside the replica, so changes that are made while nothing runs are \
            understood as well. If the folder is gone or another one, as when a disk is not mounted, nothing is \
            deleted in the space: everything comes down again. Contents are in the folder alone, and not in a cache as \
            well; rights and owners are not synced.

            EXAMPLES
              anabranch files mirror ./plans --data ./spaces --path 'my-app/"files"' \\
                  --url wss://sync.example.com --anonymous
              anabranch files mirror ./plans --once --data ./spaces \\
                  --path 'my-app/"files"' --url wss://sync.example.com
            """)

    @OptionGroup var options: FilesOptions

    @Argument(help: "The folder; made if it is missing.")
    var folder: String

    @Flag(help: "End when both are equal.")
    var once = false

    func validate() throws {
        guard options.client.url != nil else { throw ValidationError("A mirror needs a server: give --url.") }
    }

    func run() async throws {
        let folder = URL(fileURLWithPath: folder, isDirectory: true), (once, json) = (once, options.json)
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        let name = Data(folder.standardizedFileURL.path.utf8).reduce(UInt64(0xcbf2_9ce4_8422_2325)) {
            ($0 ^ UInt64($1)) &* 0x100_0000_01b3
        }
        let rows = try options.client.file() + ".mirror-\(String(name, radix: 16))"
        try await OpenSpace.with(options) { open in
            try await open.bringNames()
            let mirror = try FolderMirror(open.space, folder: folder, database: rows) { Self.show($0, json) }
            let showing = open.show("transferred"), telling = Self.tellIssues(of: open.space)
            defer {
                showing.cancel()
                telling.cancel()
            }
            if once {
                try await mirror.settle()
                return try await open.upload()
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { for await _ in signals { break } }
                group.addTask { try await mirror.run() }
                try await group.next()
                group.cancelAll()
            }
        }
    }

    /// Tells what keeps contents from being uploaded, each thing once, until it is cancelled.
    private static func tellIssues(of space: FileSpace) -> Task<Void, Never> {
        Task {
            var told: Set<String> = []
            while (try? await Task.sleep(for: .seconds(1))) != nil {
                for issue in space.status.issues where issue.kind != .offline {
                    guard let path = issue.path else { continue }
                    let text = "not uploaded: \(path): \(issue.reason)\n"
                    if told.insert(text).inserted { tell(text) }
                }
            }
        }
    }

    private static func tell(_ text: String) {
        FileHandle.standardError.write(Data(TerminalText.escaped(text).utf8))
    }

    private static func show(_ report: FolderMirror.Report, _ json: Bool) {
        let members: [String: JSONValue], text: String
        switch report {
        case .up(let word, let path):
            members = ["from": "folder", "change": .string(word), "path": .string(path.description)]
            text = "> \(word)  \(path)"
        case .down(let word, let path):
            members = ["from": "space", "change": .string(word), "path": .string(path.description)]
            text = "< \(word)  \(path)"
        case .skipped(let path, let reason):
            return tell("passed over: \(path): \(reason)\n")
        }
        if json {
            StandardOutput.write(line: Array(JSONValue.object(members).encoded.utf8))
        } else {
            print(text)
        }
        fflush(nil)
    }
}
