import AnabranchHistory
import AnabranchSQLite
import AnabranchServer
import AnabranchCore
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch verify`: reads a whole store and reports what is damaged.
struct VerifyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Check every log, cursor, index and state of a store.",
        discussion: """
            Walks the checksum chain of each synced file's log, checks that versions, idents and sizes are without \
            gaps, that the cursors of client files and their reciprocal changesets agree with the log, that every \
            changeset can be decoded, that the conflict keys are those of the log, that the archive is what was \
            written, that the state is what the log makes, and that the contents are there that the files of file \
            spaces name, in their sizes. Accounts and keys have to be readable, and each file \
            of a backup what was backed up. Nothing is changed.

            Files of one partition, which older versions made of the spellings of its value, are named with the \
            command that joins them: they are no damage.

            While a server runs, each database is checked as it was at one moment. The server \
            goes on; its write-ahead logs grow by what is written during that time.

            Where the configuration names a database of PostgreSQL, that is checked by what the store answers \
            (Spec/Postgres.md, section 7); accounts, keys, and the contents of files are not.

            An incremental backup is made whole for this in a directory anabranch-XXXXXX, in that of temporary files \
            (TMPDIR), which needs as much space as the data. It has keys and password hashes; only you can read it, \
            and it is removed at the end, also by Ctrl-C and SIGTERM. After SIGKILL or a crash of the machine, remove \
            it. Earlier backups that are needed are found as `anabranch restore` does.

            Prints a line for each synced file, a line for each damage below it, and a summary. The exit status is 0 \
            if nothing is damaged, 1 if something is or the directory cannot be read; standard error says so, too.

            EXAMPLES
              anabranch verify --data /var/lib/anabranch
              anabranch verify --data backup-monday && echo fit to be restored
              anabranch verify --data tuesday --base /mnt/monday
              anabranch verify --data ./data --json | jq -c 'select(.damages != [])'
            """)

    @OptionGroup var store: StoreOption

    @Option(
        help: ArgumentHelp(
            "Where a backup is that an incremental one needs. (default: where it was, or beside)", valueName: "dir"))
    var base: [String] = []

    @Flag(help: "Print a JSON object for each synced file, and one for the whole.")
    var json = false

    @Flag(help: "Read also the contents of files, and compare them with their hashes (Spec/Files.md).")
    var chunks = false

    func run() throws {
        let database = try store.database()
        let damageCount = try database.map(verify(database:)) ?? verify(store.directory())
        if damageCount > 0 { throw HistoryError(.storeDamaged, "the store is damaged") }
    }

    /// The sums over all files.
    private struct Totals {
        var fileCount = 0, entryCount = 0, damageCount = 0

        mutating func add(_ file: VerifiedFile) {
            fileCount += 1
            entryCount += file.entryCount
            damageCount += file.damages.count
        }
    }

    /// - Returns: the number of damages.
    private func verify(database: String) throws -> Int {
        guard base.isEmpty, !chunks else {
            throw InputError(
                description: "--base and --chunks are about data directories, and the store is in PostgreSQL")
        }
        let snapshot = try databaseSnapshot(of: database), ofStore = try snapshot.checkStore()
        if !json { for damage in ofStore { print(damage) } }
        var totals = Totals(damageCount: ofStore.count)
        try snapshot.forEachFile { file in
            let file = try snapshot.check(file)
            report(file)
            totals.add(file)
        }
        summarize(totals, ofStore, duplicates: try snapshot.partitionNames().duplicates, remedy: "")
        return totals.damageCount
    }

    /// - Returns: the number of damages.
    private func verify(_ directory: String) throws(HistoryError) -> Int {
        let temporary = TemporaryDirectory(), signals = temporary.removedAtSignals()
        defer { for source in signals { source.cancel() } }
        let verification = try StoreVerification(
            directory: directory, bases: base, temporaryDirectory: temporary.record)
        let ofDatabase =
            try verification.checkDatabase() + Self.checkKeys(in: directory)
            + (chunks ? Self.checkChunks(in: directory) : [])
        if !json { for damage in ofDatabase { print(damage) } }
        var totals = Totals(damageCount: ofDatabase.count)
        let contents = ChunkFolder(of: directory)
        try verification.checkFiles { file in
            var file = file
            if file.damages.isEmpty { file.damages += Self.checkContents(of: file.path, in: contents, verification) }
            report(file)
            totals.add(file)
        }
        summarize(
            totals, ofDatabase, duplicates: try verification.partitionNames().duplicates,
            remedy: ": `anabranch merge-files --data \(directory)` joins them")
        return totals.damageCount
    }

    /// - Parameter remedy: what is said of files of one partition.
    private func summarize(
        _ totals: Totals, _ ofDatabase: [StoreDamage], duplicates: [[VirtualPath]], remedy: String
    ) {
        if json {
            let whole: JSONValue = [
                "files": JSONValue(totals.fileCount), "log_entries": JSONValue(totals.entryCount),
                "damage_count": JSONValue(totals.damageCount), "database_damages": .array(ofDatabase.map(Self.json)),
                "files_of_one_partition": .array(
                    duplicates.map { .array($0.map { .string($0.description) }) }),
            ]
            print(whole.encoded)
        } else {
            for files in duplicates {
                print("\(files.map(\.description).joined(separator: " and ")) are one partition\(remedy)")
            }
            let sum = totals.damageCount == 0 ? "no damage" : counted(totals.damageCount, "damage")
            print("\(counted(totals.fileCount, "file")), \(counted(totals.entryCount, "log entry")): \(sum)")
        }
    }

    /// That the chunks are there which files name; their bytes are another matter.
    private static func checkContents(
        of path: VirtualPath, in contents: ChunkFolder, _ verification: StoreVerification
    ) -> [StoreDamage] {
        do {
            guard let file = try verification.file(path) else { return [] }
            return try contents.missing(of: path, in: try file.state(at: file.head.version))
        } catch {
            return [StoreDamage(kind: .value, place: "contents of files", finding: "they cannot be checked: \(error)")]
        }
    }

    private static func checkChunks(in directory: String) throws(HistoryError) -> [StoreDamage] {
        do {
            return try ChunkFolder(of: directory).check().damaged.map {
                StoreDamage(kind: .value, place: $0, finding: "it has other bytes than its name says")
            }
        } catch {
            throw HistoryError(.storeFailed, "the contents of files cannot be read: \(error)")
        }
    }

    private static func checkKeys(in directory: String) -> [StoreDamage] {
        let name = "keys.json", path = URL(fileURLWithPath: directory).appendingPathComponent(name).path
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        do {
            try KeyFile.check(path: path)
            return []
        } catch {
            return [StoreDamage(kind: .value, place: name, finding: "it holds no keys")]
        }
    }

    private func report(_ file: VerifiedFile) {
        if json { return print(Self.json(of: file).encoded) }
        print(Self.line(for: file))
        for damage in file.damages { print("  \(damage)") }
    }

    private static func json(of file: VerifiedFile) -> JSONValue {
        [
            "path": .string(file.path.description), "log_entries": JSONValue(file.entryCount),
            "log_bytes": .integer(Int64(clamping: file.logBytes)), "archived_entries": JSONValue(file.archivedCount),
            "client_files": JSONValue(file.clientFileCount), "reciprocal_changesets": JSONValue(file.reciprocalCount),
            "skipped_instructions": JSONValue(file.skippedCount), "damages": .array(file.damages.map(json)),
        ]
    }

    private static func json(_ damage: StoreDamage) -> JSONValue {
        [
            "kind": .string(damage.kind.rawValue), "place": .string(damage.place), "finding": .string(damage.finding),
        ]
    }

    private static func line(for file: VerifiedFile) -> String {
        let verdict = file.damages.isEmpty ? "ok" : "DAMAGED"
        let archived = file.archivedCount > 0 ? ", \(counted(file.archivedCount, "entry")) in the archive" : ""
        let skipped = file.skippedCount > 0 ? ", \(counted(file.skippedCount, "instruction")) cannot be applied" : ""
        return """
            \(file.path): \(verdict), \(counted(file.entryCount, "entry")), \(file.logBytes) bytes\(archived), \
            \(counted(file.clientFileCount, "client file")), \
            \(counted(file.reciprocalCount, "reciprocal changeset"))\(skipped)
            """
    }
}

extension JSONValue {
    init(_ number: Int) { self = .integer(Int64(number)) }
}
