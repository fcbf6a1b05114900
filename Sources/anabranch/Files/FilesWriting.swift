import AnabranchFiles
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch files put`.
struct FilesPut: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "put",
        abstract: "Copy a file into the space.",
        discussion: """
            A file that is there already gets a new version: its content has to be on this device, or --url given, so \
            that nothing newer is overwritten unseen. Only the chunks of 4 MiB that have changed are uploaded. Names \
            and contents are synced, rights and owners are not.

            EXAMPLES
              anabranch files put report.pdf /plans/report.pdf --data ./spaces \\
                  --path 'my-app/"files"' --url wss://sync.example.com
              anabranch files put note.txt /note.txt --data ./d --path 'my-app/"files"'
              pg_dump shop | anabranch files put - /backups/shop.sql \\
                  --data ./spaces --path 'my-app/"files"' --url wss://sync.example.com
            """)

    @OptionGroup var options: FilesOptions

    @Argument(help: "The file that is copied, - for the standard input.")
    var source: String

    @Argument(help: "The file in the space.")
    var target: String

    func run() async throws {
        let path = try SpacePath(target), url = source == "-" ? nil : URL(fileURLWithPath: source)
        try await OpenSpace.with(options) { open in
            try await open.bringNames()
            try await open.space.put(url, at: path, isSeen: open.isOnline)
            try await open.upload()
        }
    }
}

/// `anabranch files mkdir`.
struct FilesMakeFolder: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mkdir",
        abstract: "Make a folder in the space.",
        discussion: """
            EXAMPLES
              anabranch files mkdir /plans --data ./spaces --path 'my-app/"files"'
            """)

    @OptionGroup var options: FilesOptions

    @Argument(help: "The folder.")
    var folder: String

    func run() async throws {
        let path = try SpacePath(folder)
        try await options.change { try await $0.createFolder(path) }
    }
}

/// `anabranch files mv`.
struct FilesMove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mv",
        abstract: "Move or rename a file or folder of the space.",
        discussion: """
            It stays the same file: a concurrent edit on another device is seen in the new place.

            EXAMPLES
              anabranch files mv /note.txt /plans/plan.txt --data ./spaces \\
                  --path 'my-app/"files"'
            """)

    @OptionGroup var options: FilesOptions

    @Argument(help: "The file or folder.")
    var source: String

    @Argument(help: "Its new path, with the new name.")
    var target: String

    func run() async throws {
        let (source, target) = (try SpacePath(source), try SpacePath(target))
        try await options.change { try await $0.move(source, to: target) }
    }
}

/// `anabranch files rm`.
struct FilesRemove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rm",
        abstract: "Delete files, and folders with everything below them.",
        discussion: """
            They go to the trash, unless somebody edits them at the same time.

            EXAMPLES
              anabranch files rm /note.txt /plans --data ./spaces --path 'my-app/"files"'
            """)

    @OptionGroup var options: FilesOptions

    @Argument(help: "What is deleted.")
    var paths: [String]

    func run() async throws {
        let paths = try paths.map { path throws(SpaceError) in try SpacePath(path) }
        try await options.change { space in for path in paths { try await space.delete(path) } }
    }
}

/// `anabranch files restore`.
struct FilesRestore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Take files and folders out of the trash.",
        discussion: """
            They are where they were. If several deleted ones have one path, give the key that `ls --trash --json` \
            shows.

            EXAMPLES
              anabranch files restore /note.txt --data ./spaces --path 'my-app/"files"'
            """)

    @OptionGroup var options: FilesOptions

    @Argument(help: "The path that it had, or its key.")
    var name: String

    func run() async throws {
        let name = name
        try await options.change { space in
            let found = try space.trash().filter {
                $0.path.description == name || $0.key.uuidString.lowercased() == name.lowercased()
            }
            guard let entry = found.first else {
                throw InputError(description: "\(name): there is no such path or key in the trash: see ls --trash")
            }
            guard found.count == 1 else {
                let keys = found.map { $0.key.uuidString.lowercased() }.joined(separator: ", ")
                throw InputError(description: "\(name): several were deleted: give one of the keys \(keys)")
            }
            try await space.restore(entry)
        }
    }
}

extension FilesOptions {
    /// Makes a change to what is here, or at the server if there is one, and uploads it.
    fileprivate func change(_ body: @escaping @Sendable (FileSpace) async throws -> Void) async throws {
        try await OpenSpace.with(self) { open in
            try await open.bringNames()
            try await body(open.space)
            try await open.upload()
        }
    }
}
