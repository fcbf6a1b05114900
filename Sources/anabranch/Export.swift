import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch export`: the objects of a synced file as lines.
struct ExportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Print the classes and objects of a synced file, a line of JSON each, also while a server runs.",
        discussion: """
            First come the classes, then the objects, in an order that only their contents decide: equal states have \
            equal exports (Spec/Export.md). `anabranch import` takes them. The export is of one version, which a line \
            on standard error names; a server that runs goes on meanwhile, and its write-ahead logs grow by what is \
            written. Objects of asymmetric classes are not in the state: see `anabranch admin ingested`.

            If the exit status is not 0, the export is not whole.

            EXAMPLES
              anabranch export --data ./data --path 'my-app/"notes"' > notes.jsonl
              anabranch export --data ./data --path my-app | zstd > my-app.jsonl.zst
              anabranch export --data ./backup-monday --path '/"notes"' | grep '^\\["Note",'
              anabranch export --data ./data --path '/"notes"' --anonymize > shape.jsonl
            """)

    @OptionGroup var store: StoreOption

    @Option(help: "A synced file, as `anabranch inspect` lists it.")
    var path: String

    @OptionGroup var anonymity: AnonymityOptions

    @Flag(help: "Say each second how far it is. (default: only on a terminal)")
    var progress = false

    func run() throws {
        try run { StandardOutput.write($0) }
    }

    /// - Parameter output: takes some lines.
    func run(output: (Data) throws -> Void) throws {
        try StoreOption.explainingErrors {
            let file = try store.file(path)
            let state = try file.state(at: file.head.version)
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
                line.tell { "\(count) objects, \(CopyProgress.size(bytes))" }
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

    private static let pieceBytes = 1 << 18
}
