import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import CommandSupport

/// `anabranch restore`: makes a copy of a data directory fit to be served.
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Prepare a backup to be served in place of lost data.",
        discussion: """
            With --from: reads a backup of `anabranch backup`, copies it into a data directory that is empty or \
            missing, checks all of the copy, and prepares it to be served. The backup stays as it is, and can be \
            restored again. What an incremental backup needs of earlier ones is looked for where they were when it \
            was made, and beside it; --base names other places. Without --from: prepares the data directory itself, \
            which is a copy of data that was made by other means; with --in-place it is a copy of a backup, which it \
            then no longer is.

            A server went on after a backup was made, and clients received what the backup lacks. So the newest \
            version of each synced file gets another salt. Clients that have seen that version or a later one have to \
            reset (208 to 211; 222 for a file without a version), and then handle what they have not uploaded \
            according to their reset mode. All others continue. Never start a server on a copy without this command: \
            clients that have received more would stop syncing for ever, without an error.

            No server may run on the data directory. Prints a line for each synced file, and a summary. All is \
            checked before anything is changed: with exit status 1 nothing is, or it says that something may be. Then \
            no server starts; run it again. Once is enough: after a server has run, a second time makes clients reset \
            for nothing. So does the first time on data that have only moved, with no server on them in between.

            EXAMPLES
              anabranch restore --from /backup/monday --data /var/lib/anabranch-new
              anabranch restore --from /backup/monday --config anabranch.yaml \\
                  && anabranch serve --config anabranch.yaml
              anabranch restore --from ./tuesday --base /mnt/monday --data ./data-new
              anabranch restore --data ./copy-of-a-disk
              anabranch restore --in-place --data ./copy-of-a-backup
            """)

    @Option(
        help: ArgumentHelp(
            "A backup of `anabranch backup`. (default: none; the data directory is a copy)", valueName: "dir"))
    var from: String?

    @Option(
        help: ArgumentHelp(
            "With --from: where a backup is that an incremental one needs. (default: where it was, or beside)",
            valueName: "dir"))
    var base: [String] = []

    @Flag(help: "With --from: say each second how far it is. (default: only on a terminal)")
    var progress = false

    @Flag(help: "The data directory is a copy of a backup, which becomes data and is no backup any more.")
    var inPlace = false

    @OptionGroup var store: StoreOption

    func validate() throws {
        guard from == nil || !inPlace else {
            throw ValidationError("--in-place is for a copy of a backup; --from leaves the backup as it is.")
        }
        guard from != nil || base.isEmpty else {
            throw ValidationError("--base says what a backup needs: give --from, too.")
        }
    }

    func run() throws {
        let directory = try store.directory()
        if let from {
            try copy(from, to: directory)
        } else if try !inPlace && StoreRestoration.isBackup(directory) {
            throw InputError(
                description: """
                    \(directory) is a backup, and nothing was changed: `anabranch restore --from \(directory) --data \
                    DIR` makes data of it, in DIR. For a copy of a backup there is --in-place: the copy is not a \
                    backup any more then, and incremental ones that need it cannot be restored
                    """)
        }
        try prepare()
    }

    private func copy(_ backup: String, to directory: String) throws {
        var progress = CopyProgress(isAsked: progress)
        let restoration = try BackupRestoration(from: backup, bases: base, to: directory) {
            _ = try ChunkFolder(of: backup).copy(to: directory)
        }
        let damages = try restoration.run { progress.show($0) }
        progress.end()
        guard !damages.isEmpty else { return }
        for damage in damages { print(damage) }
        throw InputError(
            description: """
                \(backup) is damaged, and nothing was restored: use another backup; or, to have what is left of this \
                one served, put a copy of it in the place of the data, and run `anabranch restore --in-place` with \
                --data
                """)
    }

    private func prepare() throws {
        let restoration = try restoration()
        var count = 0
        do throws(HistoryError) {
            try restoration.run {
                print(RestoreCommand.line(for: $0))
                count += 1
            }
        } catch {
            guard restoration.isUnfinished else { throw RestoreCommand.untouched(error) }
            throw RestoreCommand.unfinished("some files may be changed, and others not", error)
        }
        print("\(counted(count, "file")): restored")
        AuditTrail(inDirectory: try store.directory()).record(
            "restore", by: Operator.name, ["files": "\(count)", "from": from ?? "the directory itself"])
        try restoration.close()
    }

    private func restoration() throws -> StoreRestoration {
        let data = try store.configuration().data
        do throws(HistoryError) {
            return try StoreRestoration(directory: data)
        } catch {
            throw Self.untouched(error)
        }
    }

    private static func unfinished(_ finding: String, _ error: HistoryError) -> InputError {
        let advice = error.code == .storeDamaged ? "take another backup" : "run it again, which goes on with that"
        return InputError(description: "\(finding), so no server starts: \(advice) (\(error.reason))")
    }

    private static func untouched(_ error: HistoryError) -> InputError {
        let advice = error.code == .storeDamaged ? "; `anabranch verify` tells more, or take another backup" : ""
        return InputError(description: "nothing was changed: \(error.reason)\(advice)")
    }

    private static func line(for file: RestoredFile) -> String {
        file.version == 0
            ? "\(file.path): empty; \(counted(file.expiredCount, "client")) will reset"
            : "\(file.path): ends at version \(file.version); clients that have it, or a later one, will reset"
    }
}
