import AnabranchHistory
import AnabranchServer
import AnabranchSimperiumWire
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch store`: stores as a whole.
struct StoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "Move a store to PostgreSQL, or back.", subcommands: [StoreCopyCommand.self])
}

/// `anabranch store copy`: copies a store into an empty one, which may be of another kind.
struct StoreCopyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy",
        abstract: "Copy a store into an empty one, which may be of another kind.",
        discussion: """
            Copies everything that a store keeps: synced files with their history, client files and what their clients \
            have not confirmed, records of doors, users with their log-ins, and the keys that sign tokens. Each side \
            is a data directory or a PostgreSQL database. No client has to reset or to log in again: versions and \
            salts stay as they are.

            No server may run on either of them. The target must not have a store; a data directory may have other \
            files. A copy that was interrupted is none: no server starts on it, and the next one begins anew. Each \
            synced file is read again and compared with what was copied, and at the end all of the copy is checked as \
            `anabranch verify` does.

            With --shared the target is a database for several servers at once, without it for one at a time: so this \
            also turns one into the other, by way of a second database.

            Only one of the two may be served afterwards. So the source is marked, and no server starts on it any \
            more: it says what to do if the source is to be served after all. --trial leaves the mark away, for a copy \
            to be looked at.

            What is not in the store stays where it is: the configuration, rules and certificates, the audit trail, \
            and the contents of files (Spec/Files.md), which are copied only from one directory to another. A server \
            with a database keeps them in the directory that --data names.

            PGPASSWORD, or the file that PGPASSFILE names, has the password of a database. Prints a summary. The exit \
            status is 1 if there is no copy.

            EXAMPLES
              anabranch store copy --from /var/lib/anabranch \\
                  --to postgres://anabranch@db.example.com/anabranch
              anabranch store copy --from ./data --shared --progress \\
                  --to postgres://anabranch@db.example.com/anabranch
              anabranch store copy --to ./data-new \\
                  --from postgres://anabranch@db.example.com/anabranch
            """)

    @Option(help: ArgumentHelp("The store to copy: a data directory, or a postgres:// URL.", valueName: "source"))
    var from: StorePlace

    @Option(
        help: ArgumentHelp(
            "Where the copy is to be: a data directory, or the postgres:// URL of a database.", valueName: "target"))
    var to: StorePlace

    @Flag(help: "Make the target a store for several servers at once.")
    var shared = false

    @Option(help: ArgumentHelp("How many databases the target has, if it is a directory.", valueName: "count"))
    var shards: Int?

    @Flag(help: "Do not mark the source: it will be served, and the copy will not.")
    var trial = false

    @Flag(help: "Say each second how far it is. (default: only on a terminal)")
    var progress = false

    func validate() throws {
        guard !shared || to.isDatabase else {
            throw ValidationError("--shared is for a target in PostgreSQL: servers cannot share a data directory.")
        }
        guard shards == nil || !to.isDatabase else {
            throw ValidationError("--shards is for a target in a data directory.")
        }
    }

    func run() throws {
        let start = ContinuousClock.now
        var sizes = StoreCopy.Progress(), userCount = 0, made: CopyTarget?
        do {
            try from.withSource { source in
                if shared { try source.files.requireShareable(withDoors: [SimperiumWire.recordSpace]) }
                let target = try to.makeTarget(isShared: shared, shards: shards)
                made = target
                (sizes, userCount) = try copy(source, to: target)
                try from.copyContents(to: to)
                try check(target, fileCount: sizes.fileCount)
                return trial ? nil : to.wholeName
            }
            // If this is interrupted, no server starts on either of them.
            try made?.finish()
        } catch {
            guard made != nil else { throw error }
            throw explained(error)
        }
        let seconds = Int(start.duration(to: .now) / .seconds(1))
        print(
            """
            \(to.name): \(counted(sizes.fileCount, "file")), \(counted(userCount, "user")), \
            \(sizes.byteCount.inBytes) in \(seconds) s, the same as in \(from.name), no damage
            \(trial ? "Serve only one of the two." : "No server starts on \(from.name) any more.")
            """)
    }

    private func copy(
        _ source: CopySource, to target: CopyTarget
    ) throws -> (sizes: StoreCopy.Progress, userCount: Int) {
        var line = ProgressLine(isAsked: progress), total = 0
        defer { line.end() }
        try source.files.forEachPath { _ in total += 1 }
        let sizes = try StoreCopy(from: source.files, to: target.files).run { progress in
            line.tell { "copied \(progress.fileCount) of \(total) files, \(progress.byteCount.inBytes)" }
        }
        let userCount = try StoreCopy.copyAccounts(from: source.accounts, to: target.accounts)
        try target.addKeys(source.keys)
        return (sizes, userCount)
    }

    /// - Throws: `storeDamaged` if the copy is damaged.
    private func check(_ target: CopyTarget, fileCount total: Int) throws {
        var line = ProgressLine(isAsked: progress), count = 0, ofFiles: [String] = []
        let ofStore = try target.check { file in
            count += 1
            ofFiles += file.damages.map { "\(file.path): \($0)" }
            line.tell { "checked \(count) of \(total) files" }
        }
        line.end()
        let damages = ofStore.map(\.description) + ofFiles
        for damage in damages { print(damage) }
        guard damages.isEmpty, count == total else {
            throw HistoryError(
                .storeDamaged, damages.isEmpty ? "the copy lacks files" : "the copy is damaged")
        }
    }

    /// The error with what has become of the two stores.
    private func explained(_ error: any Error) -> InputError {
        let reason = (error as? HistoryError)?.reason ?? (error as? AccountError)?.reason ?? "\(error)"
        return InputError(
            description: """
                \(reason). The copy is not finished, and the next one begins anew; what \(from.name) keeps is as it was
                """)
    }
}
