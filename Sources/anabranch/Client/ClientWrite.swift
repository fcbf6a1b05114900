import AnabranchClient
import AnabranchCore
import AnabranchReplica
import AnabranchRules
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch client write`.
struct ClientWrite: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "write",
        abstract: "Write the objects of lines of JSON into a replica.",
        discussion: """
            Takes what `anabranch export` and `anabranch import` take (Spec/Export.md): classes, \
            {"class":"Note","kind":"top-level","key":{…},"properties":[…]}, and objects, ["Note",key,{fields}], of \
            classes that come before or are in the replica; and ["Note",key,null], which erases an object. An object \
            is created, or given the fields that the line has. With --class the lines are documents of MongoDB, with \
            the schema of --schema, of --infer, or that the replica has.

            All lines are one transaction: if there is a mistake in one, nothing is written. When the command says \
            that they are written, the disk has them.

            EXAMPLES
              anabranch client write notes.jsonl --data ./replicas --path '/"notes"'
              echo '["Note",{"int":"1"},{"title":"milk"}]' | anabranch client write \\
                  --data ./replicas --path '/"notes"'
              anabranch client write Task.json --class Task --infer --data ./replicas \\
                  --path 'my-app/"tasks"'
              anabranch client write many.jsonl --each 100 --data ./replicas \\
                  --path my-app --url ws://127.0.0.1:9090
            """)

    @OptionGroup var options: ClientOptions

    @Argument(help: "A file with a line of JSON for each object; - is the standard input.")
    var file = "-"

    @Option(help: ArgumentHelp("How many lines make a transaction. (default: all)", valueName: "count"))
    var each: Int?

    @Option(name: .customLong("class"), help: ArgumentHelp("The class of the documents.", valueName: "name"))
    var className: String?

    @Option(help: ArgumentHelp("The schema of the documents.", valueName: "file"))
    var schema: String?

    @Flag(help: "Find a schema that all documents fit into.")
    var infer = false

    func validate() throws {
        guard each ?? 1 > 0 else { throw ValidationError("--each must be 1 or more.") }
        guard className != nil || schema == nil && !infer else {
            throw ValidationError("--schema and --infer are about documents: give --class.")
        }
        guard !infer || schema == nil else { throw ValidationError("Give --schema or --infer.") }
        guard file != "-" || !options.login.readsStandardInput else {
            throw ValidationError("The password and the lines cannot both come from the standard input.")
        }
    }

    func run() async throws {
        let tally = try await options.withReplica { open in
            // A new replica has no classes; the server may have those of the lines.
            var failure: (any Error)?
            if await open.replica.record.file == nil {
                do { try await open.synchronize() } catch { failure = error }
            }
            let tally: WrittenLines.Tally
            do {
                tally = try await write(to: open.replica)
            } catch {
                if let failure { StandardError.write("\(failure)\n") }
                throw error
            }
            do {
                if let failure { throw failure }
                try await open.synchronize()
            } catch {
                // They stay in the replica, which uploads them later.
                tally.tell()
                throw error
            }
            return tally
        }
        tally.tell()
    }

    private func write(to replica: SyncedReplica) async throws -> WrittenLines.Tally {
        var source = try ImportSource(file), tally = WrittenLines.Tally()
        var lines = try await pending(for: replica)
        while let text = try source.next() {
            try lines.add(text, from: source)
            guard lines.count == each else { continue }
            tally += try await write(&lines, to: replica)
        }
        tally += try await write(&lines, to: replica)
        for note in lines.reader?.tally.notes ?? [] {
            StandardError.write("\(file): \(note)\n")
        }
        return tally
    }

    private func write(_ lines: inout WrittenLines, to replica: SyncedReplica) async throws -> WrittenLines.Tally {
        let ready = lines
        defer { lines.removeAll() }
        do {
            return try await replica.write { try ready.write(to: $0) }
        } catch let error as ApplyError where error.code != .unavailable {
            throw InputError(description: "\(file): \(error)")
        }
    }

    private func pending(for replica: SyncedReplica) async throws -> WrittenLines {
        guard let className else { return WrittenLines(file: file) }
        let classes =
            if infer {
                try DocumentSchema.inferred(from: file, className: className)
            } else if let schema {
                try DocumentSchema.classes(at: schema, className: className)
            } else {
                try await replica.snapshot().state.exportedClasses
            }
        do {
            return WrittenLines(file: file, reader: try DocumentReader(classes, className: className), classes: classes)
        } catch {
            throw InputError(description: "\(file): \(error)")
        }
    }
}

/// Lines that become one transaction.
struct WrittenLines: Sendable {
    struct Tally: Sendable {
        var written = 0, unchanged = 0, erased = 0

        func tell() {
            print("\(counted(written, "object")) written, \(unchanged) unchanged, \(erased) erased")
        }

        static func += (sum: inout Tally, other: Tally) {
            sum.written += other.written
            sum.unchanged += other.unchanged
            sum.erased += other.erased
        }
    }

    private enum Content: Sendable {
        case object(className: String, key: JSONValue, fields: [JSONName: JSONValue])
        case erased(className: String, key: JSONValue)
    }

    private let file: String
    /// The reader of documents; nil if the lines are those of an export.
    private(set) var reader: DocumentReader?
    private var classes: [ExportedClass]
    private var lines: [(number: Int, content: Content)] = []

    init(file: String, reader: DocumentReader? = nil, classes: [ExportedClass] = []) {
        (self.file, self.reader, self.classes) = (file, reader, classes)
    }

    var count: Int { lines.count }

    mutating func removeAll() {
        lines = []
        classes = []
    }

    mutating func add(_ text: [UInt8], from source: ImportSource) throws {
        let number = source.lineNumber
        do throws(LineError) {
            try source.requireWhole()
            if !source.isBSON, let erased = Self.erased(text) {
                lines.append((number, erased))
                return
            }
            switch try ExportLine(parsing: try reader?.line(source.document(text)) ?? text) {
            case .header: break
            case .declaration(let declared): classes.append(declared)
            case .object(let className, let key, let fields):
                lines.append((number, .object(className: className, key: key, fields: fields)))
            }
        } catch {
            throw InputError(description: "\(file), \(source.unit) \(number): \(error)")
        }
    }

    private static func erased(_ text: [UInt8]) -> Content? {
        guard let parts = (try? JSONValue(parsing: text, depthMax: ExportLine.depthMax))?.array, parts.count == 3,
            let className = parts[0].string, parts[2] == .null
        else { return nil }
        return .erased(className: className, key: parts[1])
    }

    func write(to transaction: WriteTransaction) throws -> Tally {
        try transaction.add(classes)
        var tally = Tally()
        for (number, content) in lines {
            do {
                switch content {
                case .object(let className, let key, let fields):
                    if try transaction.importObject(className, key, fields) {
                        tally.written += 1
                    } else {
                        tally.unchanged += 1
                    }
                case .erased(let className, let key):
                    if try Self.erase(className, key, in: transaction) {
                        tally.erased += 1
                    } else {
                        tally.unchanged += 1
                    }
                }
            } catch let error as LineError {
                throw InputError(description: "\(file), line \(number): \(error)")
            } catch let error as ApplyError where error.code != .unavailable {
                throw InputError(description: "\(file), line \(number): \(LineError(error))")
            }
        }
        return tally
    }

    /// - Returns: whether there was such an object.
    private static func erase(_ className: String, _ json: JSONValue, in transaction: WriteTransaction) throws -> Bool {
        guard let key = PrimaryKey(exported: json) else { throw LineError(noKey: json) }
        guard let object = try transaction.object(className, key: key) else { return false }
        try transaction.delete(object)
        return true
    }
}
