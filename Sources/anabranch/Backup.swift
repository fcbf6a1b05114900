import AnabranchHistory
import AnabranchSQLite
import AnabranchServer
import ArgumentParser
import CommandSupport

/// `anabranch backup`: copies a data directory, also while a server runs on it.
struct BackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy a data directory, also while a server runs on it.",
        discussion: """
            Copies the synced files, the accounts and the keys that sign tokens. The server goes on: it waits for \
            nothing, and only its write-ahead logs grow by what is written while each database is copied. Each \
            synced file is copied as it is between two changes, and the user of each client file is there.

            The backup has the keys that sign tokens and the hashes of the users' passwords: who can read it can log \
            in as everybody. Only you can read the directory; keep every copy of it as secret as the data. The \
            configuration file, the rules and the certificate are not in it.

            The target has to be empty or missing. A backup that was interrupted is none: restore refuses it, and the \
            next backup into the directory removes it first. No server starts on a backup; `anabranch restore --from` \
            makes data of it.

            With --base the backup is incremental: of each database it holds the pages that are not in an earlier \
            backup of the same data, whole or incremental itself. It is of use only together with that one, which has \
            to stay as it is: `anabranch restore --from` needs both, and finds them where they were, or beside one \
            another. While it is made, it needs the space of a whole one and of the largest part that it keeps; where \
            that has no room, a database stays whole. After 63 that need one another the next one has to be whole.

            The contents of files (Spec/Files.md) are in every backup, as links where it is on the same disk.

            Prints a summary. The exit status is 1 if there is no backup, or if --verify finds damage: then the \
            backup is there and holds what the data hold, damage included.

            EXAMPLES
              anabranch backup --data /var/lib/anabranch --to /backup/monday --verify
              anabranch backup --config anabranch.yaml --to "/backup/$(date +%F)" \\
                  --progress
              anabranch backup --data /var/lib/anabranch --to /backup/tuesday \\
                  --base /backup/monday --verify
              anabranch restore --from /backup/tuesday --data /var/lib/anabranch-new
            """)

    @OptionGroup var store: StoreOption

    @Option(help: ArgumentHelp("The directory of the backup: an empty one, or none yet.", valueName: "dir"))
    var to: String

    @Option(
        help: ArgumentHelp(
            """
            An earlier backup: only what has changed since is kept. Once more: where those are that it needs, if they \
            have moved. (default: none, the backup is whole)
            """, valueName: "dir"))
    var base: [String] = []

    @Flag(
        help: """
            Read the backup as `anabranch verify` does, and compare it with what was copied: an incremental one \
            together with its base.
            """)
    var verify = false

    @Flag(help: "Say each second how far it is. (default: only on a terminal)")
    var progress = false

    func run() throws {
        var progress = CopyProgress(isAsked: progress)
        let data = try store.directory()
        var chunkCount = 0
        let backup = try StoreBackup(of: data, to: to, bases: base) {
            chunkCount = try ChunkFolder(of: data).copy(to: to)
        }
        let summary = try backup.run(isVerified: verify) { progress.show($0) }
        progress.end()
        let whole = base.isEmpty ? "" : " of \(summary.wholeBytes.inBytes)"
        let damages = summary.damages.isEmpty ? "no damage" : counted(summary.damages.count, "damage")
        let verdict = verify ? ", \(damages)" : ""
        var users = summary.userCount.map { counted($0, "user") } ?? "no accounts"
        if chunkCount > 0 { users += ", \(counted(chunkCount, "chunk")) of files" }
        print(
            """
            \(to): \(counted(summary.fileCount, "file")), \(users), \
            \(summary.bytes.inBytes)\(whole) in \(progress.seconds) s\(verdict)
            It has the keys that sign tokens and the hashes of passwords: keep it secret.
            """)
        guard !summary.damages.isEmpty else { return }
        for damage in summary.damages { print("  \(damage)") }
        throw HistoryError(
            .storeDamaged,
            "the backup is damaged: keep an older one, and look at the data with `anabranch verify`")
    }
}
