import AnabranchCore
import AnabranchRealmFile
import AnabranchTesting
import ArgumentParser
import Foundation

struct BenchRealmFileCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "realm-file",
        abstract: "Measure the export of a Realm file beside that of a state with the same objects.",
        discussion: """
            Writes a Realm file with --objects objects of five fields, of 300 bytes each, and a state with the same. \
            Prints a JSON line: medians of the milliseconds of processor that the lines of each take, and by how many \
            MiB the memory of the process grows meanwhile, the mapped file not counted.

            EXAMPLES
              anabranch-lab bench realm-file --objects 1000000
              anabranch-lab bench realm-file --objects 1000000 --keep notes.realm
            """)

    @Option(help: "How many objects there are.")
    var objects = 1_000_000

    @Option(help: "How often each is measured.")
    var repeats = 3

    @Option(help: ArgumentHelp("Keep the Realm file under this name.", valueName: "file"))
    var keep: String?

    func validate() throws {
        guard objects > 0, repeats > 0 else { throw ValidationError("There must be an object and a measurement.") }
    }

    func run() throws {
        BenchEnvironment.show()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("anabranch-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = keep ?? folder.appendingPathComponent("notes.realm").path
        try NotesFile.write(objects, to: path)
        let bytes = try Data(contentsOf: URL(fileURLWithPath: path), options: .alwaysMapped)
        try StoredState.withTemporary { stored in
            try Self.take(bytes, into: &stored)
            stored.state.unload()
            var times: [Double] = [], stateTimes: [Double] = [], grown = 0
            for _ in 0..<repeats {
                let figures = try Self.measure { line in try Self.export(bytes, line) }
                times.append(figures.milliseconds)
                grown = max(grown, figures.grownBytes)
                stateTimes.append(try Self.measure { line in try stored.state.forEachExportLine(line) }.milliseconds)
                stored.state.unload()
            }
            let (time, stateTime) = (times.sorted()[repeats / 2], stateTimes.sorted()[repeats / 2])
            print(
                String(
                    format: #"{"objects":%ld,"bytes":%ld,"ms":%.0f,"state_ms":%.0f,"times":%.2f,"grown_mib":%.1f}"#,
                    objects, bytes.count, time, stateTime, time / stateTime, Double(grown) / 1_048_576))
        }
    }

    private static func export(_ bytes: Data, _ write: ([UInt8]) throws -> Void) throws {
        try bytes.withUnsafeBytes { buffer in
            _ = try RealmFile(RealmFileBytes(at: buffer) {}).export(write)
        }
    }

    /// Writes the content of a Realm file to a state.
    private static func take(_ bytes: Data, into stored: inout StoredState) throws {
        var classes: [ExportedClass] = [], piece: [ExportLine] = []
        func write() throws {
            try stored.write { transaction in
                try transaction.add(classes)
                for case .object(let className, let key, let fields) in piece {
                    _ = try transaction.importObject(className, key, fields)
                }
            }
            (classes, piece) = ([], [])
        }
        try export(bytes) { text in
            let line = try ExportLine(parsing: text)
            if case .declaration(let declared) = line { classes.append(declared) } else { piece.append(line) }
            if piece.count == 10_000 { try write() }
        }
        try write()
    }

    /// - Parameter export: hands its argument each line.
    private static func measure(
        _ export: (([UInt8]) throws -> Void) throws -> Void
    ) throws -> (milliseconds: Double, grownBytes: Int) {
        let before = try ProcessSnapshot.ofOwnProcess().anonymousBytes, start = ProcessorTime.milliseconds
        var count = 0, byteCount = 0, most = before
        try export { line in
            count += 1
            byteCount += line.count
            if count.isMultiple(of: 1 << 16) { most = max(most, try ProcessSnapshot.ofOwnProcess().anonymousBytes) }
        }
        return (ProcessorTime.milliseconds - start, most - before)
    }
}

/// A Realm file with objects of five fields.
private enum NotesFile {
    private static let leafObjects = 256

    static func write(_ count: Int, to path: String) throws {
        var builder = RealmFileBuilder(), leaves: [(count: Int, values: [Int64])] = []
        for first in stride(from: 0, to: count, by: leafObjects) {
            let numbers = first..<min(first + leafObjects, count)
            let texts = numbers.map { String(repeating: "The text of note \($0) goes on for a while. ", count: 6) }
            let values = [
                builder.integers(numbers.map { Int32($0) }), builder.shortStrings(numbers.map { "note \($0)" }),
                builder.integers(numbers.map { Int16($0 % 1_000) }), builder.doubles(numbers.map { Double($0) }),
                builder.mediumStrings(texts),
            ]
            leaves.append((numbers.count, values))
        }
        typealias Column = RealmFileBuilder.Column
        let columns = [
            Column(name: "_id", type: 0), Column(name: "title", type: 2), Column(name: "count", type: 0),
            Column(name: "size", type: 10), Column(name: "text", type: 2, attributes: 16),
        ]
        let file = builder.finish(columns, leaves: leaves, className: "Note")
        try Data(file).write(to: URL(fileURLWithPath: path))
    }
}
