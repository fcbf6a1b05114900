import AnabranchCore
import ArgumentParser
import CommandSupport
import Foundation

/// The form in which an export has the objects of one class, for programs of others.
enum ClassForm: String, EnumerableFlag {
    case documents, csv

    /// The ending of the names of files.
    var suffix: String { self == .csv ? "csv" : "json" }

    static func help(for value: Self) -> ArgumentHelp? {
        switch value {
        case .documents: "Print documents in MongoDB's extended JSON, relaxed, one a line."
        case .csv: "Print lines of CSV, the first of which has the names."
        }
    }
}

/// Writes the objects of some classes in a form that programs of others read.
struct ClassExport {
    private let state: ObjectGraph
    private let form: ClassForm
    private var documents: DocumentText
    private var table: CSVText
    private var progress: ProgressLine
    /// The number of objects that were written.
    private(set) var count = 0

    private static let pieceBytes = 1 << 18

    init(of state: ObjectGraph, as form: ClassForm, progress: ProgressLine) {
        (self.state, self.form, self.progress) = (state, form, progress)
        documents = DocumentText(of: state)
        table = CSVText(of: state)
    }

    /// The classes that objects are stored of, or the one with a name.
    func classes(named name: String?) throws -> [ClassSchema] {
        let classes = state.classes.filter { $0.kind == .topLevel }
            .sorted { $0.name.lexicographicallyPrecedes($1.name) }
        guard let name else { return classes }
        let found = classes.filter { $0.name == Array(name.utf8) }
        guard found.isEmpty else { return found }
        let names = classes.map { String(decoding: $0.name, as: UTF8.self) }
        throw InputError(description: KnownWords.unknown("class", name, of: names))
    }

    /// Writes the objects of a class.
    ///
    /// - Parameter output: takes some lines.
    mutating func write(_ schema: ClassSchema, to output: (Data) throws -> Void) throws {
        let properties = DocumentText.properties(schema)
        var pending = form == .csv ? CSVText.header(of: schema, properties) : [], failure: (any Error)?
        try state.forEachObject(of: schema.number, after: nil) { object in
            switch form {
            case .documents:
                documents.append(object, of: schema, properties, to: &pending)
                pending.append(UInt8(ascii: "\n"))
            case .csv: table.append(object, of: schema, properties, to: &pending)
            }
            count += 1
            guard pending.count >= Self.pieceBytes else { return true }
            do { try output(Data(pending)) } catch { failure = error }
            pending.removeAll(keepingCapacity: true)
            progress.tell { counted(count, "object") }
            return failure == nil
        }
        progress.end()
        if let failure { throw failure }
        try output(Data(pending))
    }

    /// Writes a file for each of the classes into a folder, which is made; one that has something in it is refused.
    func write(_ classes: [ClassSchema], toFolder folder: String) throws -> ClassExport {
        let files = FileManager.default
        do {
            try files.createDirectory(atPath: folder, withIntermediateDirectories: true)
            guard try files.contentsOfDirectory(atPath: folder).isEmpty else {
                throw InputError(description: "\(folder): is not empty; name a folder that is, or a new one")
            }
        } catch let error as CocoaError {
            throw InputError(description: "\(folder): cannot be written: \(error.localizedDescription)")
        }
        var export = self
        for schema in classes {
            let file = try OutputFile("\(folder)/\(Self.fileName(schema.name)).\(form.suffix)")
            do {
                try export.write(schema) { try file.write($0) }
            } catch {
                file.discard()
                throw error
            }
            try file.finish()
        }
        return export
    }

    /// The name of a class as that of a file: bytes other than letters, digits, `_` and `-` as `%` and two digits.
    static func fileName(_ name: [UInt8]) -> String {
        var text: [UInt8] = []
        for byte in name {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), 0x30...0x39,
                UInt8(ascii: "_"), UInt8(ascii: "-"):
                text.append(byte)
            default:
                text.append(UInt8(ascii: "%"))
                Hex.append(CollectionOfOne(byte), to: &text)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// A line for each change that values went through.
    var notes: [String] {
        let losses = form == .csv ? table.documents.losses : documents.losses
        return losses.sorted { $0.key < $1.key }.flatMap { place, counts in
            counts.sorted { $0.key < $1.key }.map { loss, count in
                "\(place): \(count == 1 ? "one" : "each of \(count)") \(loss.rawValue)"
            }
        }
    }
}
