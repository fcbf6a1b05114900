import AnabranchHistory
import AnabranchSQLite
import ArgumentParser

/// `anabranch verify`: reads a whole store and reports what is damaged.
struct VerifyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Check every log, cursor, index and state of a data directory.",
        discussion: """
            Walks the checksum chain of each synced file's log, checks that versions, idents and sizes are without \
            gaps, that the cursors of client files and their reciprocal changesets agree with the log, that every \
            changeset can be decoded, that the touch index is complete, and that the state is what the log makes. \
            Nothing is changed. The server must not be running.

            Prints a line for each synced file, a line for each damage below it, and a summary. The exit status is 0 \
            if nothing is damaged, 1 if something is or the directory cannot be read.

            EXAMPLES
              anabranch verify --data /var/lib/anabranch
              anabranch verify --data backup-monday && echo fit to be restored
            """)

    @Option(help: "The data directory, as given to `anabranch serve`.")
    var data: String

    func run() throws {
        do throws(HistoryError) {
            if try verify() > 0 { throw HistoryError(.storeDamaged, "the store is damaged") }
        } catch {
            print("verify: \(error.reason)")
            throw ExitCode(1)
        }
    }

    /// - Returns: how many damages there are.
    private func verify() throws(HistoryError) -> Int {
        let verification = try StoreVerification(directory: data)
        let ofDatabase = try verification.checkDatabase()
        for damage in ofDatabase { print(damage) }
        var fileCount = 0, entryCount = 0, damageCount = ofDatabase.count
        try verification.checkFiles { file in
            print(VerifyCommand.line(for: file))
            for damage in file.damages { print("  \(damage)") }
            fileCount += 1
            entryCount += file.entryCount
            damageCount += file.damages.count
        }
        let sum = damageCount == 0 ? "no damage" : "\(damageCount) damages"
        print("\(fileCount) files, \(entryCount) log entries: \(sum)")
        return damageCount
    }

    private static func line(for file: VerifiedFile) -> String {
        let verdict = file.damages.isEmpty ? "ok" : "DAMAGED"
        let skipped = file.skippedCount > 0 ? ", \(file.skippedCount) instructions cannot be applied" : ""
        return """
            \(file.path): \(verdict), \(file.entryCount) entries, \(file.logBytes) bytes, \
            \(file.clientFileCount) client files, \(file.reciprocalCount) reciprocal changesets\(skipped)
            """
    }
}
