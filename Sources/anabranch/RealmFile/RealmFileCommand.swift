import AnabranchCore
import AnabranchRealmFile
import ArgumentParser
import CommandSupport

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

/// The file and the way to read it, which all of these commands take.
struct RealmFileOptions: ParsableArguments {
    @Argument(help: "A Realm file.")
    var file: String

    @OptionGroup var reading: RealmFileReading

    var salvage: Bool { reading.salvage }

    /// Opens the file, and runs `body` with it. Errors say which file it is.
    func read<Result>(_ body: (RealmFile) throws -> Result) throws -> Result { try reading.read(file, body) }

    func tell(_ problems: [RealmFileError], count: Int, notSeen: [String]) {
        RealmFileReading.tell(of: file, problems, count: count, notSeen: notSeen)
    }
}
