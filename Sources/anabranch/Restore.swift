import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import Logging

/// `anabranch restore`: makes a copy of a data directory fit to be served.
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Prepare a backup to be served in place of the lost data.",
        discussion: """
            A server went on after a backup was made, and clients were told of what the backup lacks. Run this on the \
            copy of the backup before a server is started on it, and never start a server on a copy without: clients \
            that had been told more would stop for ever, without an error.

            It gives the newest version of each synced file another salt. Clients that had seen that version or a \
            later one are told to reset (208 to 211; 222 for a file without a version), and then synchronize what \
            they have not uploaded according to their reset mode. All others go on. The server must not be running; \
            check the backup first.

            Prints a line for each synced file, and a summary. All files are checked before the first is changed: with \
            exit status 1 none is, or it says that some are. Then no server starts; run it again. \
            Once is enough: after a server has run, a second time makes clients reset for nothing. So does the first \
            time on data that have only moved, with no server on them in between.

            EXAMPLES
              anabranch verify --data ./backup-monday
              cp -a ./backup-monday ./data
              anabranch restore --data ./data && anabranch serve --config anabranch.yaml
            """)

    @OptionGroup var store: StoreOption

    func run() throws {
        let restoration = try restoration()
        var count = 0
        do throws(HistoryError) {
            try restoration.run {
                print(RestoreCommand.line(for: $0))
                count += 1
            }
        } catch {
            guard restoration.isUnfinished else { throw RestoreCommand.untouched(error) }
            throw InputError(description: "some files are changed, and others are not: run it again (\(error.reason))")
        }
        print("\(count) files: restored")
        try restoration.close()
    }

    private func restoration() throws -> StoreRestoration {
        let configuration = try store.configuration()
        var progress = MigrationLog(Logger(label: "anabranch") { StreamLogHandler.standardError(label: $0) })
        do throws(HistoryError) {
            return try StoreRestoration(directory: configuration.data, options: configuration.store) {
                progress.note($0)
            }
        } catch {
            throw Self.untouched(error)
        }
    }

    private static func untouched(_ error: HistoryError) -> InputError {
        let advice = error.code == .storeDamaged ? "; `anabranch verify` tells more, or take another backup" : ""
        return InputError(description: "nothing was changed: \(error.reason)\(advice)")
    }

    private static func line(for file: RestoredFile) -> String {
        file.version == 0
            ? "\(file.path): no version, \(file.expiredCount) client files have expired"
            : "\(file.path): version \(file.version) has a new salt"
    }
}
