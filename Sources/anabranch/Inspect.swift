import AnabranchCore
import AnabranchHistory
import AnabranchQuery
import AnabranchSQLite
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch inspect`: what a store holds, and the state of a synced file.
struct InspectCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect",
        abstract:
            "List the synced files of a data directory, print the state of one, or the objects that match a query.",
        discussion: """
            Without --path: a line for each synced file. With it: the file's state, or the one that it had at an \
            earlier version, as the canonical JSON of Spec/State.md, part E, on one line. Earlier states are made from \
            the log, and once it has lost its beginning from a bootstrap generation or the archive (Spec/Explain.md, \
            section 4). Nothing is changed, and a running server keeps serving.

            With --class and --query: a line for each object of the class that matches, [primary key, fields], in the \
            language of the Realm SDKs (Spec/Query.md), SORT, DISTINCT and LIMIT included. The class has the name that \
            it has in the app's schema. Names of properties are those that are stored, which an SDK can map to others.

            EXAMPLES
              anabranch inspect --data ./data
              anabranch inspect --data ./data --json | jq -r .path
              anabranch inspect --data ./data --path '/"notes"' --pretty
              anabranch inspect --data ./data --path '/"notes"' --at 41 > before.json
              anabranch inspect --data ./data --path '/"notes"' --at 2026-11-24T14:00Z
              anabranch inspect --data ./data --path '/"notes"' --at -2h
              anabranch inspect --data ./data --path '/"notes"' --class Note \\
                  --query 'title BEGINSWITH[c] "to do"'
              anabranch inspect --data ./data --path '/"notes"' --class Note \\
                  --query 'done == true LIMIT(10)'
            """)

    @OptionGroup var store: StoreOption

    @Option(help: "A synced file, as it is listed.")
    var path: String?

    @Option(
        name: .customLong("at"), parsing: .unconditional,
        help: ArgumentHelp("\(LogMoment.help) The newest version if none is given.", valueName: "version|time"),
        transform: LogMoment.parse)
    var moment: LogMoment?

    @Flag(help: "Print a JSON object for each synced file; a state is JSON anyway.")
    var json = false

    @Flag(help: "Print a line for each value, for people.")
    var pretty = false

    @Option(name: .customLong("class"), help: "The class that the query is about.")
    var className: String?

    @Option(help: "Which objects of the class to print.")
    var query: String?

    func validate() throws {
        guard path != nil || moment == nil && !pretty && query == nil else {
            throw ValidationError("--at, --pretty and --query are about a file: give --path.")
        }
        guard (className == nil) == (query == nil) else {
            throw ValidationError("--class and --query belong together: give both.")
        }
    }

    func run() throws { try run { print($0) } }

    /// - Parameter output: takes a line.
    func run(output: (String) -> Void) throws {
        try StoreOption.explainingErrors {
            guard let path else { return try store.reader().forEachFile { output(line(for: $0)) } }
            let file = try store.file(path)
            let state = try file.state(at: moment?.version(in: file) ?? file.head.version)
            for text in try texts(of: state) {
                output(pretty ? String(indenting: text) : String(decoding: text, as: UTF8.self))
            }
        }
    }

    /// The whole state, or the objects that match the query.
    private func texts(of state: ObjectGraph) throws -> [[UInt8]] {
        guard let className, let query else { return [try state.canonicalJSON()] }
        guard state.schema(ofClass: Array(className.utf8)) != nil else {
            throw InputError.noClass(className, of: state)
        }
        do {
            return try Query(query, on: className, of: state).objects(in: state).map(state.canonicalJSON)
        } catch let error as QueryError {
            throw InputError(description: "--query: \(error)")
        }
    }

    private func line(for file: StoredFile) -> String {
        let head = file.head
        if json {
            let members: JSONValue = [
                "path": .string(file.path.description), "version": .integer(Int64(clamping: head.version.rawValue)),
                "state_version": .integer(Int64(clamping: head.stateVersion.rawValue)),
                "bytes": .integer(Int64(clamping: head.cumulativeSize)),
                "client_files": .integer(Int64(clamping: head.clientFileCount)),
            ]
            return members.encoded
        }
        let state = head.stateVersion < head.version ? " (its state is of version \(head.stateVersion))" : ""
        return """
            \(file.path): version \(head.version)\(state), \(head.cumulativeSize) bytes, \
            \(counted(Int(clamping: head.clientFileCount), "client file"))
            """
    }
}

extension VirtualPath {
    /// The possible meanings of an argument: the path that listings show in this form, or else the path of these very
    /// bytes.
    static func meanings(of word: String) -> [VirtualPath] {
        [VirtualPath(description: word), VirtualPath(word)].compactMap(\.self)
    }
}

/// The option that names the data directory, for every command about one; those that only read take a database as well.
struct StoreOption: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The data directory. (default: $ANABRANCH_DATA, or what the configuration file says)", valueName: "dir"))
    var data: String?

    @Option(help: ArgumentHelp("The configuration file of the server, in YAML.", valueName: "file"))
    var config: String?

    func directory() throws -> String {
        if let data { return data }
        try configuration(needsData: false).requireDirectory()
        return try configuration().data
    }

    /// The database of the configuration; nil if the data are in a directory.
    func database() throws -> String? { data == nil ? try configuration(needsData: false).database : nil }

    /// The store that is read, and its place in a message.
    private func opened() throws -> (reader: any StoreSnapshot, place: String) {
        if let database = try database() { return (try databaseSnapshot(of: database), "the database") }
        let directory = try directory()
        return (try StoreReader(directory: directory), directory)
    }

    /// The settings of these flags, the environment and the file. Those of a server need not agree with each other: the
    /// command starts none.
    ///
    /// - Parameter needsData: true if one of them has to name the data directory. There is no default, so that nobody
    ///   takes an old one for the one that is meant.
    func configuration(needsData: Bool = true) throws -> Configuration {
        let sources = ConfigurationSources(
            file: config, environment: ProcessInfo.processInfo.environment,
            flags: ["data": data].compactMapValues { $0 })
        guard sources.problems.isEmpty else { throw ConfigurationError(problems: sources.problems) }
        guard sources.names.contains("data") || !needsData else {
            let question = config.map { "\($0) does not say where the data are. Give --data or ANABRANCH_DATA" }
            throw ConfigurationError(
                problems: [question ?? "which data directory? Give --data, --config or ANABRANCH_DATA"])
        }
        return sources.configuration
    }

    func reader() throws -> any StoreSnapshot { try opened().reader }

    /// A file by its path, as `VirtualPath` prints it or in plain text, with the partition's value in any spelling.
    func file(_ path: String) throws -> StoredFile {
        let (reader, place) = try opened(), names = try reader.partitionNames()
        func find(_ path: String) throws -> StoredFile? {
            for path in VirtualPath.meanings(of: path) {
                if let found = try reader.file(path) ?? reader.file(names.file(at: path)) { return found }
            }
            return nil
        }
        if let found = try find(path) { return found }
        let hint = try find(Self.quoted(path)).map { "; did you mean '\($0.path)'?" } ?? ""
        throw InputError(description: "\(place): there is no partition \(path)\(hint)")
    }

    /// A path with its partition in the quotation marks of JSON, which people leave out and shells take away.
    private static func quoted(_ path: String) -> String {
        guard let slash = path.firstIndex(of: "/") else { return path }
        return "\(path[...slash])\"\(path[path.index(after: slash)...])\""
    }

    /// Turns an error of the store into a line for people, without the error code of the protocol.
    static func explainingErrors(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as HistoryError {
            throw InputError(description: error.reason)
        }
    }
}
