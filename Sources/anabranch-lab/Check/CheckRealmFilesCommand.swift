import AnabranchTesting
import ArgumentParser

struct CheckRealmFilesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "realm-files",
        abstract: "Read Realm files, and compare with what the reference says of them.",
        discussion: """
            NAME.realm.gz is a Realm file, NAME.jsonl.gz the lines of its export, and NAME.sync.json, if it is there, \
            its sync state with the changesets that wait for upload. In damaged/ are files of which expected.tsv says \
            what becomes of them. Every difference is printed, then the sums. The exit status is 1 if something \
            differs, if a file cannot be read, or if there is none.

            EXAMPLE
              anabranch-lab check realm-files Tests/Vectors/RealmFiles
            """)

    @Argument(help: "Folders with such files.")
    var folders: [String]

    func run() throws {
        var check = RealmFileCheck { print($0) }
        for folder in folders { try check.run(folder) }
        for line in check.summary { print(line) }
        if !check.hasPassed { throw ExitCode.failure }
    }
}
