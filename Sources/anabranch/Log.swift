import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchSQLite
import AnabranchSimperiumWire
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch log`: the history of a synced file.
struct LogCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Print the history of a synced file, newest first.",
        discussion: """
            A line for each version of the log, and then of the archive if there is one: its number, when its changes \
            were made, their author (a client file, the server, or a Simperium client with its user), their size in \
            bytes, and their beginning. `anabranch show` prints all of a version, `anabranch explain` why it is so. \
            With --object: only the versions of the log that changed that object. With --edits: a line for each group \
            of versions by one author on the same objects, without a long pause between them. A running server keeps \
            serving.

            EXAMPLES
              anabranch log --data ./data --path '/"notes"'
              anabranch log --data ./data --path '/"notes"' --edits --count 10
              anabranch log --data ./data --path '/"notes"' --object Note/7
              anabranch log --data ./data --path '/"notes"' --count 10
              anabranch log --data ./data --path '/"notes"' --since 2026-11-24T14:00Z
              anabranch log --data ./data --path '/"notes"' --since -2h --until -1h
              anabranch log --data ./data --path '/"notes"' --json | jq .bytes
              anabranch log --data ./data --path '/"notes"' --anonymize > report.txt
            """)

    @OptionGroup var store: StoreOption

    @Option(help: "A synced file, as `anabranch inspect` lists it.")
    var path: String

    @Option(name: .shortAndLong, help: "How many versions, or edits; all if it is not given.")
    var count: Int?

    @Option(help: ArgumentHelp("Only versions that changed this object.", valueName: "class/key"))
    var object: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Only versions after this one. \(LogMoment.help)", valueName: "version|time"),
        transform: LogMoment.parse)
    var since: LogMoment?

    @Option(
        parsing: .unconditional, help: ArgumentHelp("Only versions up to this one.", valueName: "version|time"),
        transform: LogMoment.parse)
    var until: LogMoment?

    @Flag(help: "Group versions into edits.")
    var edits = false

    @Option(help: "With --edits: the pause that ends an edit, in seconds; 300 by default.")
    var pause: UInt64?

    @OptionGroup var anonymity: AnonymityOptions

    @Flag(help: "Print a JSON object for each version or edit.")
    var json = false

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count must be 1 or more.") }
        if pause != nil, !edits { throw ValidationError("--pause needs --edits.") }
        if let pause, !(1...31_536_000).contains(pause) {
            throw ValidationError("--pause must be 1 or more, and a year at most.")
        }
    }

    func run() throws { try run { print($0) } }

    /// - Parameter output: takes a line.
    func run(output: (String) -> Void) throws {
        try StoreOption.explainingErrors {
            let file = try store.file(path), anonymizer = try anonymity.anonymizer(of: file)
            if edits { return try printEdits(of: file, anonymizer, output) }
            var lines = LogLines(width: "\(file.head.version)".count)
            try forEachEntry(of: file, countMax: count ?? .max) { entry in
                let author = anonymizer == nil ? try file.doorAuthor(of: entry) : nil
                let entry = try anonymizer?.entry(entry) ?? entry
                if json { return output(entry.json("summary", JSONValue.string(entry.summary).encoded, by: author)) }
                for line in lines.add(entry, by: author.map { LogStream.escaped($0[...]) }) { output(line) }
            }
            if let line = lines.finish() { output(line) }
        }
    }
}

/// The lines of a log. Versions of the server that change nothing become one: a bootstrap generation has very many.
struct LogLines {
    let width: Int
    /// The versions without changes that came last, the newest and the oldest of them.
    private var silent: (newest: LogEntry, oldest: LogEntry)?

    init(width: Int) { self.width = width }

    /// - Parameter author: the author, if the entry does not say it.
    /// - Returns: the lines that are complete.
    mutating func add(_ entry: LogEntry, by author: String? = nil) -> [String] {
        if entry.origin == 0, entry.changeset.isEmpty {
            silent = (silent?.newest ?? entry, entry)
            return []
        }
        return [finish(), line("\(entry.version)", entry, entry.summary, by: author)].compactMap(\.self)
    }

    mutating func finish() -> String? {
        guard let (newest, oldest) = silent.take() else { return nil }
        guard newest.version > oldest.version else { return line("\(newest.version)", newest, newest.summary) }
        let count = newest.version.rawValue - oldest.version.rawValue + 1
        return line(
            "\(oldest.version)-\(newest.version)", newest, "nothing in \(count) versions, added for bootstraps")
    }

    private func line(_ version: String, _ entry: LogEntry, _ summary: String, by author: String? = nil) -> String {
        let space = String(repeating: " ", count: max(0, width - version.count)), author = author ?? entry.author
        return "\(space)\(version)  \(entry.date)  \(author)  \(entry.changeset.count) bytes  \(summary)"
    }
}

extension LogCommand {
    private struct Enough: Error {}
    private struct Beginning: Error {}

    private func printEdits(
        of file: StoredFile, _ anonymizer: Anonymizer?, _ output: (String) -> Void
    ) throws {
        var groups = pause.map { EditGroups(pauseMilliseconds: $0 * 1000) } ?? EditGroups(), left = count ?? .max
        func put(_ edits: [Edit]) throws {
            for edit in edits {
                output(json ? edit.json : edit.line)
                left -= 1
                if left == 0 { throw Enough() }
            }
        }
        do {
            try forEachEntry(of: file, countMax: .max) { entry in
                try put(groups.add(try anonymizer?.entry(entry) ?? entry))
            }
            try put(groups.finish())
        } catch is Enough {}
    }

    private func forEachEntry(
        of file: StoredFile, countMax: Int, _ body: (LogEntry) throws -> Void
    ) throws {
        let last = try until?.version(in: file, beforeAll: 0) ?? .largest
        let base = try since?.version(in: file, beforeAll: 0) ?? 0
        guard let object else {
            do {
                try file.forEachEntry(newest: countMax, upTo: last) { entry in
                    guard entry.version > base else { throw Beginning() }
                    try body(entry)
                }
            } catch is Beginning {}
            return
        }
        let address = try ObjectAddress(argument: object, in: file.state(at: file.head.version).exportedClasses)
        let versions = try file.withView { view throws(HistoryError) in try view.versions(changing: address) }
            .filter { $0 > base && $0 <= last }
        for version in versions.reversed().prefix(countMax) {
            if let entry = try file.entry(version) { try body(entry) }
        }
    }
}

/// `anabranch show`: one version of a synced file.
struct ShowCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Print a version of a synced file: who made it, when, and every instruction.",
        discussion: """
            The instructions are those of the log, as they were merged with what came before, in the words of \
            `anabranch changeset print`. A running server keeps serving.

            EXAMPLES
              anabranch show 41 --data ./data --path '/"notes"'
              anabranch show 41 --data ./data --path '/"notes"' --json | jq \\
                  .changeset.instructions
              anabranch show 41 --data ./data --path '/"notes"' --anonymize
            """)

    @Argument(help: "A version, as `anabranch log` prints it.")
    var version: UInt64

    @OptionGroup var store: StoreOption

    @Option(help: "A synced file, as `anabranch inspect` lists it.")
    var path: String

    @OptionGroup var anonymity: AnonymityOptions

    @Flag(help: "Print a JSON object, with the changeset as `anabranch changeset print --json` prints it.")
    var json = false

    func run() throws { try run { print($0) } }

    /// - Parameter output: takes a line.
    func run(output: (String) -> Void) throws {
        try StoreOption.explainingErrors {
            let file = try store.file(path)
            guard let entry = try file.entry(ServerVersion(rawValue: version)) else {
                let head = file.head, beginning = head.baseVersion > 0 ? "begins after \(head.baseVersion) and " : ""
                let archived = try file.archivedVersions().map { versions in
                    ", and the archive has versions from \(versions.lowerBound) to \(versions.upperBound)"
                }
                throw InputError(
                    description:
                        "\(file.path): the log \(beginning)ends at version \(head.version)\(archived ?? "")")
            }
            let anonymizer = try anonymity.anonymizer(of: file)
            let client = anonymizer == nil ? try file.doorAuthor(of: entry) : nil
            let shown = try anonymizer?.entry(entry) ?? entry
            let (arena, index) = try shown.decoded()
            if json {
                return output(shown.json("changeset", arena.json(of: index), by: client))
            }
            let author = client.map { LogStream.escaped($0[...]) } ?? entry.author
            output("version  \(entry.version)")
            output("author   \(author)\(entry.origin == 0 ? "" : ", its version \(entry.clientVersion)")")
            output("date     \(entry.date) (timestamp \(entry.timestamp))")
            output("size     \(shown.changeset.count) bytes")
            output("")
            for instruction in arena.instructions(of: index) { output(arena.text(of: instruction)) }
        }
    }
}

extension Edit {
    /// The objects that are named on a line.
    private static let objectsMax = 4

    fileprivate var line: String {
        let range = versionCount > 1 ? "\(versions.lowerBound)-\(versions.upperBound)" : "\(versions.upperBound)"
        let author = author == 0 ? "server" : "client \(author)"
        var what = objects.prefix(Self.objectsMax).map(\.line)
        if objects.count > Self.objectsMax { what.append("and \(objects.count - Self.objectsMax) more") }
        if changesSchema { what.append("classes or columns") }
        let count = counted(versionCount, "version")
        return "\(range)  \(times.lowerBound.date)  \(author)  \(count)  \(what.joined(separator: "; "))"
    }
}

extension Edit.Object {
    fileprivate var line: String {
        if isDeleted { return "\(object.text) \(isInserted ? "created and deleted" : "deleted")" }
        let names = fields.map { String(decoding: $0, as: UTF8.self) }.joined(separator: ", ")
        return object.text + (isInserted ? " created" : "") + (names.isEmpty ? "" : ": \(names)")
    }
}

extension ChangesetTime {
    /// The moment in UTC, with milliseconds.
    var date: String {
        let seconds = secondsSince1970
        let endOf9999 = 253_402_300_799.0
        guard seconds <= endOf9999 else { return "after the year 9999     " }
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        return Date(timeIntervalSince1970: seconds).formatted(style)
    }
}

extension StoredFile {
    /// The client of another wire that made an entry; nil if it is not known.
    fileprivate func doorAuthor(of entry: LogEntry) throws(HistoryError) -> String? {
        guard entry.origin == 0 else { return nil }
        return try withView { view throws(HistoryError) in
            try SimperiumWire.author(of: entry.version, at: path, in: PendingRecords(over: view))
        }
    }
}

extension LogEntry {
    /// The time of the changes, by their author's clock.
    fileprivate var date: String { timestamp.date }

    /// The content of a line, for scripts, and one more member.
    /// - Parameters:
    ///   - value: JSON.
    ///   - author: the author, if the entry does not say it.
    fileprivate func json(_ name: String, _ value: String, by author: String?) -> String {
        let members: JSONValue = [
            "version": .integer(Int64(clamping: version.rawValue)),
            "client": .integer(Int64(clamping: origin.rawValue)),
            "client_version": .integer(Int64(clamping: clientVersion.rawValue)), "bytes": JSONValue(changeset.count),
            "timestamp": .integer(Int64(clamping: timestamp.rawValue)),
            "date": .string(date.trimmingCharacters(in: .whitespaces)),
        ]
        let known = author.map { ",\"author\":\(JSONValue.string($0).encoded)" } ?? ""
        return members.encoded.dropLast() + known + ",\"\(name)\":\(value)}"
    }

    fileprivate var author: String { origin == 0 ? "server" : "client \(origin)" }

    fileprivate func decoded() throws -> (ChangesetArena, ChangesetIndex) {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: version.rawValue, tag: tag)
        return (arena, index)
    }

    /// The first instruction and the number of the others, on a line.
    fileprivate var summary: String {
        guard let (arena, index) = try? decoded() else { return "cannot be decoded" }
        let instructions = arena.instructions(of: index)
        guard let first = instructions.first else { return "nothing" }
        let text = arena.text(of: first)
        let others = instructions.count > 1 ? " and \(instructions.count - 1) more" : ""
        return (text.count > 100 ? text.prefix(100) + "…" : text) + others
    }
}
