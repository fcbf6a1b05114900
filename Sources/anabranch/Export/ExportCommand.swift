import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchSQLite
import AnabranchServer
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch export`: the objects of a synced file as lines.
struct ExportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Print classes and objects of a file as lines of JSON.",
        discussion: """
            First come the classes, then the objects, in an order that only their contents decide: equal states have \
            equal exports (Spec/Export.md). `anabranch import` takes them. The export is of one version, which a line \
            on standard error names; a running server keeps serving, and its write-ahead logs grow by what is \
            written. Objects of asymmetric classes are not in the state: see `anabranch admin ingested`.

            With --documents or --csv the objects of one class are printed for programs of others: MongoDB's tools, \
            jq, databases, spreadsheets. With --output each class is a file of a folder, which must be empty or \
            missing. What such a form cannot hold is named at the end on standard error (Spec/Export.md, sections 7 \
            and 8).

            If the exit status is not 0, the export is not whole.

            EXAMPLES
              anabranch export --data ./data --path 'my-app/"notes"' > notes.jsonl
              anabranch export --data ./data --path my-app | zstd > my-app.jsonl.zst
              anabranch export --data ./backup-monday --path '/"notes"' | grep '^\\["Note",'
              anabranch export --data ./data --path '/"notes"' --anonymize > shape.jsonl
              anabranch export --data ./data --path '/"notes"' --documents \\
                  --class Note | jq -r .title
              anabranch export --data ./data --path '/"notes"' --csv --output tables
            """)

    @OptionGroup var store: StoreOption

    @Option(help: "A synced file, as `anabranch inspect` lists it.")
    var path: String

    @Flag(exclusivity: .exclusive) var form: ClassForm?

    @Option(name: .customLong("class"), help: "With --documents or --csv: the class whose objects are printed.")
    var className: String?

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp(
            "With --documents or --csv: write a file for each class into this folder.", valueName: "folder"))
    var output: String?

    @OptionGroup var anonymity: AnonymityOptions

    @Flag(help: "Say each second how far it is. (default: only on a terminal)")
    var progress = false

    func validate() throws {
        guard form == nil || !anonymity.anonymize else {
            throw ValidationError("--anonymize is for lines that are imported: leave out --documents and --csv.")
        }
        guard form != nil || (className == nil && output == nil) else {
            throw ValidationError("--class and --output are for --documents and --csv: give one of them.")
        }
    }

    func run() throws {
        try run { StandardOutput.write($0) }
    }

    /// - Parameter output: takes some lines.
    func run(output: (Data) throws -> Void) throws {
        try StoreOption.explainingErrors {
            let file = try store.file(path)
            let state = try file.state(at: file.head.version)
            if let form {
                let export = ClassExport(of: state, as: form, progress: ProgressLine(isAsked: progress))
                return try finish(try write(export, to: output), from: file)
            }
            let anonymizer = try anonymity.anonymizer(of: file)
            let replacement = anonymizer.map { $0.callAsFunction }
            var pending = Data(), count = 0, bytes = 0, line = ProgressLine(isAsked: progress)
            try state.forEachExportLine(replacing: replacement) { text in
                pending += text
                pending.append(UInt8(ascii: "\n"))
                if text.first == UInt8(ascii: "[") { count += 1 }
                guard pending.count >= Self.pieceBytes else { return }
                bytes += pending.count
                try output(pending)
                pending.removeAll(keepingCapacity: true)
                line.tell { "\(counted(count, "object")), \(bytes.inBytes)" }
            }
            try output(pending)
            line.end()
            let asymmetric = state.exportedClasses(replacing: replacement).filter { $0.kind == .topLevelAsymmetric }
                .map(\.name)
            let others =
                asymmetric.isEmpty
                ? "" : "; without objects of asymmetric classes: \(asymmetric.joined(separator: ", "))"
            let name = anonymizer == nil ? file.path.description : "anonymized"
            let summary = "\(name): \(counted(count, "object")) at version \(file.head.version)\(others)\n"
            StandardError.write(summary)
        }
    }

    /// Writes the requested class, or the only one; with a folder all of them.
    private func write(_ export: ClassExport, to print: (Data) throws -> Void) throws -> ClassExport {
        let classes = try export.classes(named: className)
        if let output { return try export.write(classes, toFolder: output) }
        guard classes.count <= 1 else {
            let names = classes.map { String(decoding: $0.name, as: UTF8.self) }.joined(separator: ", ")
            throw InputError(description: "which class? Give --class, or --output for all of them; there are \(names)")
        }
        var export = export
        for schema in classes { try export.write(schema, to: print) }
        return export
    }

    private func finish(_ export: ClassExport, from file: StoredFile) throws {
        let summary = "\(file.path): \(counted(export.count, "object")) at version \(file.head.version)"
        StandardError.write((export.notes + [summary]).map { $0 + "\n" }.joined())
    }

    private static let pieceBytes = 1 << 18
}
