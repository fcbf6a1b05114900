import AnabranchCore
import AnabranchFiles
import ArgumentParser
import CommandSupport
import Foundation
import UnixSignals

/// `anabranch files ls`.
struct FilesList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ls",
        abstract: "List what is in a folder of the space.",
        discussion: """
            Each line has the size, the time of the last change, the state and the path. The state says whether the \
            content is on this device (cached) or only at the server, is being transferred, waits (pending), or has \
            not arrived at the server from the device that has made the file.

            EXAMPLES
              anabranch files ls --data ./spaces --path 'my-app/"files"'
              anabranch files ls /plans --recursive --json --data ./spaces \\
                  --path 'my-app/"files"' --url wss://sync.example.com
              anabranch files ls --trash --data ./spaces --path 'my-app/"files"'
            """)

    @OptionGroup var options: FilesOptions

    @Argument(help: "The folder.")
    var folder = "/"

    @Flag(name: .shortAndLong, help: "List also what is in folders below it.")
    var recursive = false

    @Flag(help: "List what was deleted.")
    var trash = false

    func run() async throws {
        let path = try SpacePath(folder), (recursive, trash, json) = (recursive, trash, options.json)
        try await OpenSpace.with(options) { open in
            try await open.bringNames()
            let space = open.space, entries: [SpaceEntry]
            if trash {
                entries = try space.trash()
            } else if recursive {
                _ = try await space.list(path)
                entries = try space.everything().filter { path.contains($0.path) && $0.path != path }
                    .sorted { $0.path.description < $1.path.description }
            } else {
                entries = try await space.list(path)
            }
            for entry in entries {
                let state = entry.isFolder || trash ? nil : try await space.status(of: entry.path).word
                if json {
                    var members = entry.json.object ?? [:]
                    if let state { members["state"] = .string(state) }
                    StandardOutput.write(line: Array(JSONValue.object(members).encoded.utf8))
                } else {
                    print(Self.line(entry, state))
                }
            }
        }
    }

    private static func line(_ entry: SpaceEntry, _ state: String?) -> String {
        let size = entry.isFolder ? "-" : "\(entry.size)"
        let time = entry.modified?.formatted(.iso8601) ?? "-"
        let columns = [
            String(repeating: " ", count: max(0, 13 - size.count)) + size, time.padded(to: 20),
            (state ?? (entry.isFolder ? "folder" : "deleted")).padded(to: 13),
        ]
        return columns.joined(separator: "  ") + "  \(entry.path)" + (entry.isFolder ? "/" : "")
    }
}

extension String {
    fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}

/// `anabranch files get`.
struct FilesGet: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Copy a file of the space.",
        discussion: """
            Without --url the content has to be on this device. What comes goes straight into the copy, and is not \
            kept as well. A transfer that was cut goes on where it was; if there is an older copy, only the chunks of \
            4 MiB that have changed are transferred.

            EXAMPLES
              anabranch files get /plans/report.pdf --data ./spaces \\
                  --path 'my-app/"files"' --url wss://sync.example.com
              anabranch files get /note.txt - --data ./spaces --path 'my-app/"files"'
            """)

    @OptionGroup var options: FilesOptions

    @Argument(help: "The file in the space.")
    var source: String

    @Argument(help: "The copy, - for the standard output. (default: the name in this folder)")
    var target: String?

    func run() async throws {
        let path = try SpacePath(source), target = target ?? path.name
        try await OpenSpace.with(options) { open in
            try await open.bringNames()
            let file = try open.space.open(path), showing = open.show("downloaded")
            defer { showing.cancel() }
            if target == "-" {
                let handle = try await open.limited { try await file.readHandle() }
                while let part = try handle.read(upToCount: 1 << 20), !part.isEmpty { StandardOutput.write(part) }
            } else {
                let url = URL(fileURLWithPath: target)
                try await open.limited { try await file.copy(to: url) }
            }
        }
    }
}

/// `anabranch files watch`.
struct FilesWatch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print changes in the space as they come.",
        discussion: """
            A line for each change, with its kind, its origin (local, remote or both) and its path. SIGINT and SIGTERM \
            end it with exit status 0.

            EXAMPLES
              anabranch files watch --data ./spaces --path 'my-app/"files"' \\
                  --url wss://sync.example.com
              anabranch files watch /plans --json --data ./spaces \\
                  --path 'my-app/"files"' --url wss://sync.example.com
            """)

    @OptionGroup var options: FilesOptions

    @Argument(help: "The folder or file that is watched, with everything below it.")
    var path = "/"

    func validate() throws {
        guard options.client.url != nil else {
            throw ValidationError("Nothing changes without a server: give --url.")
        }
    }

    func run() async throws {
        let path = try SpacePath(path), json = options.json
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        try await OpenSpace.with(options) { open in
            let changes = open.space.changes(at: path)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { for await _ in signals { break } }
                group.addTask {
                    for await changes in changes { for change in changes { Self.show(change, json) } }
                }
                try await open.bringNames()
                try await group.next()
                group.cancelAll()
            }
        }
    }

    private static func show(_ change: SpaceChange, _ json: Bool) {
        let kind: String
        var former: SpacePath?
        switch change.kind {
        case .created: kind = "created"
        case .updated: kind = "updated"
        case .deleted: kind = "deleted"
        case .moved(let from): (kind, former) = ("moved", from)
        case .statusChanged, .vanished: return
        }
        if json {
            var members: [String: JSONValue] = [
                "path": .string(change.path.description), "change": .string(kind),
                "origin": .string("\(change.origin)"), "key": .string(change.key.uuidString.lowercased()),
            ]
            if let former { members["from"] = .string(former.description) }
            StandardOutput.write(line: Array(JSONValue.object(members).encoded.utf8))
        } else {
            print("\(kind) (\(change.origin))  " + (former.map { "\($0) -> " } ?? "") + "\(change.path)")
        }
        fflush(nil)
    }
}
