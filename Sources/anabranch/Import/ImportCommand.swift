import AnabranchCore
import AnabranchRules
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch import`: has a running server write the objects of a file.
struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Write the objects of a file, of an export or of MongoDB, to a running server.",
        discussion: """
            Takes what `anabranch export` prints, documents as mongoexport and Atlas write them, one a line, and the \
            .bson that mongodump writes, tables of CSV as `anabranch export --csv` writes them, each also compressed \
            with gzip; and .realm files of devices. Each \
            object is created, or given the fields that the line has, by its primary key; what is there already is \
            not written again, so an import can be repeated. Clients download it like everything that others write. \
            A line with a mistake is reported on standard error, with its number, its field and the reason; the \
            others go on; the exit status is then 1. An import that was interrupted says how to go on.

            The server has to run: it is found as `anabranch admin` finds it. A partition that is missing is made.

            Documents need a class (--class) and a schema: by default the one that the synced file has; with --schema \
            that of App Services, a schema.json or the folder of an exported app, with which fields that link to \
            other classes are known; with --infer one that fits all documents, which is printed on standard error. \
            --infer --dry-run prints it as lines that can be changed and given as --schema. Fields that the schema \
            does not have are left out, and counted at the end. With --partition-key each document goes to the \
            partition that the field names, and one file can fill all partitions of an app (Spec/Export.md). A \
            document without the field is refused, unless --allow-missing sends it to the partition null.

            A table of CSV, a file whose name ends in .csv or any with --csv, has the names of the fields in its \
            first line, and needs a class and a schema as documents do. All of it is looked at before anything is \
            written: if a cell, a record or a name is wrong, each is reported and nothing is written.

            A Realm file (Spec/RealmFile.md) is read as `anabranch realm-file export` reads it, and whole before \
            anything is written: lines are those of the export. Objects of asymmetric classes are left out and \
            counted. In a file that never connected, objects without a primary key get keys that no other file has.

            EXAMPLES
              anabranch import notes.jsonl --data ./data --path 'my-app/"notes"'
              anabranch import Task.json --data ./data --path my-app --class Task
              anabranch import Task.json --data ./data --path my-app --class Task \\
                  --schema ./my-app-export
              anabranch import Task.json --app my-app --partition-key _partition \\
                  --class Task --infer --data ./data
              anabranch import Task.json --class Task --infer --dry-run > task-schema.jsonl
              anabranch import dump/app/Task.bson.gz --data ./data --path my-app \\
                  --class Task
              anabranch import Task.csv --data ./data --path my-app --class Task
              anabranch import default.realm --data ./data --path 'my-app/"notes"' \\
                  --from-device ann-phone
              zstdcat notes.jsonl.zst | anabranch import - --data ./data \\
                  --path 'my-app/"notes"'
            """)

    @OptionGroup var options: AdminOptions
    @Argument(help: "A Realm file, one of BSON, or one with a JSON object a line; - is the standard input.")
    var file: String
    @Option(help: "The synced file, as `admin files` shows it.")
    var path: String?
    @Option(help: ArgumentHelp("The app whose partitions --partition-key is about.", valueName: "id"))
    var app: String?
    @Option(help: ArgumentHelp("The field that names the partition of a document.", valueName: "field"))
    var partitionKey: String?
    @Flag(help: "Send documents without the field of --partition-key to the partition null.")
    var allowMissing = false
    @Option(name: .customLong("class"), help: ArgumentHelp("The class of the documents.", valueName: "name"))
    var className: String?
    @Option(help: ArgumentHelp("The schema of the documents.", valueName: "file"))
    var schema: String?
    @Flag(help: "Find a schema that all documents fit into.")
    var infer = false
    @Flag(help: "The file is a table of CSV, whatever its name is.")
    var csv = false
    @Flag(help: "End at the first line with a mistake; those before it are written.")
    var strict = false
    @Option(help: ArgumentHelp("Leave out the lines before this one.", valueName: "number"))
    var fromLine = 1
    @Option(
        help: ArgumentHelp(
            "When the data were so, as in 2025-09-30T12:00:00Z: later changes win over them. (default: now)",
            valueName: "time"))
    var asOf: String?
    @Flag(help: "Read the file and tell what is wrong with it, without a server; with --infer print the schema.")
    var dryRun = false
    @Flag(help: "Say each second how far it is. (default: only on a terminal)")
    var progress = false
    @OptionGroup(title: "Realm files") var realmFile: RealmFileImportOptions

    func validate() throws {
        guard (partitionKey == nil) == (app == nil) else {
            throw ValidationError("--partition-key and --app belong together: give both.")
        }
        guard !allowMissing || partitionKey != nil else {
            throw ValidationError("--allow-missing is about --partition-key: give that, too.")
        }
        guard dryRun || (path == nil) != (app == nil) else {
            throw ValidationError("Where to? Give --path, or --app with --partition-key.")
        }
        guard !infer || schema == nil else { throw ValidationError("Give --schema or --infer.") }
        guard !isTable || !infer else {
            throw ValidationError("A table of CSV does not say the types of its fields: give --schema.")
        }
        guard !isTable || file != "-" else {
            throw ValidationError("A table of CSV is read twice, before anything is written: put it into a file.")
        }
        _ = try time()
        guard !infer || className != nil else { throw ValidationError("--infer needs --class.") }
    }

    private func time() throws -> ChangesetTime? {
        guard let asOf else { return nil }
        guard let date = try? Date(asOf, strategy: .iso8601), date.timeIntervalSince1970 >= 0 else {
            throw ValidationError("--as-of must be a time as in 2025-09-30T12:00:00Z.")
        }
        return ChangesetTime(secondsSince1970: date.timeIntervalSince1970)
    }

    func run() async throws {
        if dryRun { return try await importLines(with: nil) }
        try await options.run { client in try await importLines(with: client) }
    }

    /// True if the file is a table of CSV.
    private var isTable: Bool { csv || file.hasSuffix(".csv") || file.hasSuffix(".csv.gz") }

    private func importLines(with client: AdminClient?) async throws {
        if isTable, client != nil { try await checkTable(client) }
        let progress = ProgressLine(isAsked: progress)
        let realm = try realmFile.areAbout(file) ? try realmFile.lines(of: file, progress: progress) : nil
        guard !realmFile.onlyPending || realm != nil else {
            throw InputError(description: "\(file): is not a Realm file")
        }
        var source = try realm?.source ?? ImportSource(file)
        source.isTable = isTable
        guard let first = try source.next() else { throw InputError(description: "\(file): is empty") }
        var form = try await form(of: first, isBSON: source.isBSON, client)
        var run = ImportRun(
            file: file, unit: source.unit, isStrict: strict, client: client, progress: progress)
        run.time = try time()
        if case .documents(_, let classes, _) = form { run.declarations = classes.map { Array($0.json.encoded.utf8) } }
        if let realm {
            guard path != nil || dryRun else {
                throw InputError(description: "\(file): has its classes: give --path alone")
            }
            run.begin(realm)
        }
        let interruption = Interruption()
        var line: [UInt8]? = realm?.isOnlyPending == true ? nil : first
        if isTable {
            source.table = try table(first, form)
            line = try source.next()
        }
        while let text = line, !run.isEnded {
            let number = source.lineNumber
            if !take(text, from: source, &form, &run) { try await run.send(total: source.byteCount) }
            if run.isFull { try await run.send(total: source.byteCount) }
            if interruption.isAsked { throw run.interrupted(at: run.firstLine ?? number + 1) }
            line = try source.next()
            run.bytesRead = source.bytesRead
        }
        try await run.send(total: source.byteCount)
        if dryRun, infer, case .documents(_, let classes, _) = form {
            let lines = [ExportLine.headerText] + classes.map { $0.json.encoded }
            print(lines.joined(separator: "\n"))
        }
        if case .documents(let reader, _, _) = form { run.documents = reader.tally }
        if let realm { try await run.finish(realm, path: path ?? "") }
        try run.report(asJSON: options.json, isDry: dryRun, ofPartitions: app != nil)
    }

    /// Checks all of a table; prints every mistake, and throws if there is one.
    private func checkTable(_ client: AdminClient?) async throws {
        var source = try ImportSource(file)
        source.isTable = true
        guard let header = try source.next() else { throw InputError(description: "\(file): is empty") }
        var form = try await form(of: header, isBSON: false, client)
        source.table = try table(header, form)
        var run = ImportRun(
            file: file, unit: source.unit, isStrict: strict, client: nil, progress: ProgressLine(isAsked: false))
        while !run.isEnded, let record = try source.next() {
            _ = take(record, from: source, &form, &run)
            if run.isFull { try await run.send(total: nil) }
        }
        guard run.refusedCount > 0 else { return }
        run.sayUnnamed()
        throw InputError(
            description: "\(file): nothing was written, since \(counted(run.refusedCount, "record")) cannot be")
    }

    private func table(_ header: [UInt8], _ form: ImportForm) throws -> CSVTable {
        guard case .documents(_, let classes, _) = form else {
            throw InputError(description: "\(file): is an export, and no table of CSV")
        }
        do {
            return try CSVTable(header: header, classes, className: try documentClass(classes))
        } catch let error as LineError {
            throw InputError(description: "\(file), line 1: \(error)")
        }
    }

    /// - Returns: true if the run goes on; otherwise it has to be ended.
    private func take(
        _ text: [UInt8], from source: ImportSource, _ form: inout ImportForm, _ run: inout ImportRun
    ) -> Bool {
        let number = source.lineNumber
        do throws(LineError) {
            try source.requireWhole()
            switch form {
            case .export:
                switch try ExportLine(parsing: text) {
                case .header: break
                case .declaration: run.declarations.append(text)
                case .object: if number >= fromLine { run.add(text, number, to: path ?? "") }
                }
            case .documents(var reader, let classes, let partition):
                guard number >= fromLine else { return true }
                let document = try source.document(text)
                // The reader is in one place only, so that its counts are not copied.
                form = .export
                defer { form = .documents(reader, classes, partition) }
                let line = try reader.line(document)
                run.add(line, number, to: try path(of: document, partition))
            }
            return true
        } catch {
            run.refuse(number, error)
            return !strict
        }
    }

    /// The path of the synced file that a document belongs to, as listings show it.
    private func path(of document: DocumentValue, _ partition: PartitionField?) throws(LineError) -> String {
        guard let partition else { return path ?? "" }
        let value = document.document?[JSONName(partition.name)]
        guard value != nil || allowMissing else {
            throw LineError(
                field: partition.name, "it is missing; --allow-missing sends such documents to the partition null")
        }
        return try partition.path(of: value ?? .null)
    }

    // MARK: Forms

    private func form(of first: [UInt8], isBSON: Bool, _ client: AdminClient?) async throws -> ImportForm {
        if !isBSON, let line = try? ExportLine(parsing: first), case .header = line {
            guard className == nil, schema == nil, !infer, app == nil else {
                throw InputError(description: "\(file): has its classes: give --path alone")
            }
            return .export
        }
        guard isBSON || isTable || first.first(where: { $0 > 0x20 }) != UInt8(ascii: "[") else {
            throw InputError(
                description: """
                    \(file): is one array. Write a document a line: `mongoexport` without --jsonArray does, and \
                    `jq -c '.[]'` makes it of an array
                    """)
        }
        let classes = try await classes(client)
        let name = try documentClass(classes)
        let partition = app.flatMap { app in partitionKey.map { PartitionField(app: app, name: $0) } }
        if allowMissing { try partition?.check(in: file) }
        do {
            let ignored = Set(partitionKey.map { [$0] } ?? [])
            return .documents(try DocumentReader(classes, className: name, ignoring: ignored), classes, partition)
        } catch {
            throw InputError(description: "\(file): \(error)")
        }
    }

    /// The class of the documents.
    private func documentClass(_ classes: [ExportedClass]) throws -> String {
        let names = classes.filter { $0.kind == .topLevel }.map(\.name)
        if let name = className ?? (names.count == 1 ? names[0] : nil) { return name }
        throw InputError(
            description: "\(file): which class? Give --class; there are \(names.joined(separator: ", "))")
    }

    private func classes(_ client: AdminClient?) async throws -> [ExportedClass] {
        if infer, let className { return try DocumentSchema.inferred(from: file, className: className) }
        if let schema { return try DocumentSchema.classes(at: schema, className: className) }
        guard let client, let path else {
            throw InputError(
                description: isTable
                    ? "\(file): is a table, which says no types; give --schema"
                    : "\(file): has documents of MongoDB; give their schema, or --infer")
        }
        let answer = try JSONValue(parsing: try await client.get("/v1/classes", [("path", path)]))
        let classes = try (answer["classes"]?.array ?? []).map { try ExportedClass($0) }
        guard !classes.isEmpty else {
            throw InputError(description: "\(path) has no classes yet; give the schema\(isTable ? "" : ", or --infer")")
        }
        return classes
    }
}

/// The form of a file's lines.
enum ImportForm {
    case export
    case documents(DocumentReader, [ExportedClass], PartitionField?)
}
