import AnabranchRealmFile
import AnabranchServer
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch realm-file export`: the objects of a Realm file as lines.
struct RealmFileExportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Print the classes and objects of a Realm file, a line of JSON each.",
        discussion: """
            The lines are those of `anabranch export`, and `anabranch import` takes them (Spec/Export.md). Embedded \
            objects stand in the objects that they belong to; objects of asymmetric classes are left out. All local \
            changes are in the objects, uploaded or not.

            What is damaged ends the export, with its place; with --salvage it is left out and named on standard \
            error. A small file can hold what takes a thousand times as much in lines, so these have a limit. If the \
            exit status is not 0, the export is not whole. With --output the file gets its name when all is written.

            Objects without a primary key have a key of two numbers, of which the first is the ident that the server \
            gave the file. In files that never connected it is 0, so objects of two devices have the same keys: give \
            each of these files an ident of its own.

            Files of a Realm Object Server are refused unless --server-file is given: no such file has been compared \
            with the reference.

            EXAMPLES
              anabranch realm-file export notes.realm > notes.jsonl
              anabranch realm-file export notes.realm --key-file notes.key \\
                  --output notes.jsonl
              anabranch realm-file export damaged.realm --salvage --output saved.jsonl
              anabranch realm-file export notes.realm | anabranch import - --data ./data \\
                  --path 'my-app/"notes"'
              anabranch realm-file export phone-2.realm --ident 1000000002 > phone-2.jsonl
            """)

    @OptionGroup var options: RealmFileOptions

    @Option(
        help: ArgumentHelp(
            "How many bytes the lines may have; 64 times the file and 16 MiB more by default.", valueName: "bytes"))
    var outputLimit: Int?

    @Option(name: .shortAndLong, help: ArgumentHelp("Write to this file.", valueName: "file"))
    var output: String?

    @Option(
        help: ArgumentHelp(
            "Of a file that never connected: the first number in the keys of objects without a primary key.",
            valueName: "number"))
    var ident: UInt64?

    @Flag(help: "Read the objects of a file of a Realm Object Server.")
    var serverFile = false

    @Flag(help: "Say each second how far it is. (default: only on a terminal)")
    var progress = false

    private static let pieceBytes = 1 << 18

    /// The range of idents, which have 30 bits in the numbers of objects.
    private static let idents = 1...UInt64(1 << 30 - 1)

    func validate() throws {
        if let ident, !Self.idents.contains(ident) {
            throw ValidationError("--ident must be from 1 to \(Self.idents.upperBound).")
        }
        if let outputLimit, outputLimit < 1 { throw ValidationError("--output-limit must be 1 or more.") }
    }

    func run() throws {
        guard let output else { return try run { StandardOutput.write($0) } }
        let file = try OutputFile(output, reading: [options.file, options.reading.keyFile].compactMap(\.self))
        do {
            try run { try file.write($0) }
        } catch let error as ExitCode {
            try file.finish()
            throw error
        } catch {
            file.discard()
            throw error
        }
        try file.finish()
    }

    /// - Parameter output: takes some lines.
    func run(output: (Data) throws -> Void) throws {
        let report = try options.read { file in
            if file.history == .syncServer, !serverFile {
                throw InputError(
                    description: "\(options.file): it is a file of a Realm Object Server; with --server-file its "
                        + "objects are read")
            }
            var pending = Data(), count = 0, bytes = 0, line = ProgressLine(isAsked: progress)
            let report = try file.export(
                salvages: options.salvage, outputLimit: outputLimit, localIdent: ident ?? 0
            ) { text in
                pending += text
                pending.append(UInt8(ascii: "\n"))
                count += 1
                guard pending.count >= Self.pieceBytes else { return }
                bytes += pending.count
                try output(pending)
                pending.removeAll(keepingCapacity: true)
                line.tell { "\(counted(count, "line")), \(bytes.inBytes)" }
            }
            try output(pending)
            line.end()
            return report
        }
        options.tell(report.problems, count: report.problemCount, notSeen: report.notSeen)
        StandardError.write("\(options.file): \(counted(report.objectCount, "object"))\n")
        if report.problemCount > 0 { throw ExitCode.failure }
    }
}
