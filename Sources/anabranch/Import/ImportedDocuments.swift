import AnabranchCore
import AnabranchHistory
import AnabranchRules
import CommandSupport
import Foundation

/// The classes of documents, from a schema or from the documents themselves.
enum DocumentSchema {
    /// The classes in a file or folder: the schema of a class, as App Services has it; a folder with an exported app;
    /// or the lines of an export.
    static func classes(at path: String, className: String?) throws -> [ExportedClass] {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw InputError(description: "\(path): there is no such file or folder")
        }
        do {
            if isFolder.boolValue { return try AppExport(directory: path).schema.exportedClasses }
            let bytes = Array(try TextInput.text(ofFile: path).utf8)
            if let header = try? ExportLine(parsing: bytes.prefix { $0 != 10 }), case .header = header {
                return try declarations(bytes)
            }
            let name = className ?? "documents"
            let file = AppFile(path: "data_sources/mongodb-atlas/database/\(name)/schema.json", bytes: bytes)
            return try AppExport(files: [file]).schema.exportedClasses
        } catch let error as RuleError {
            throw InputError(description: "\(path): \(error.place): \(error.reason)")
        } catch let error as LineError {
            throw InputError(description: "\(path): \(error)")
        }
    }

    private static func declarations(_ bytes: [UInt8]) throws(LineError) -> [ExportedClass] {
        var classes: [ExportedClass] = []
        for line in bytes.split(separator: 10) {
            if case .declaration(let declared) = try ExportLine(parsing: line) { classes.append(declared) }
        }
        return classes
    }

    /// The classes that all documents of a file fit into. Standard error says what was found.
    static func inferred(from file: String, className: String) throws -> [ExportedClass] {
        guard file != "-" else {
            throw InputError(description: "--infer reads the documents twice: put them into a file")
        }
        var source = try ImportSource(file), inference = SchemaInference(className: className), count = 0
        var progress = ProgressLine(isAsked: false), unreadable: InputError?
        while let line = try source.next() {
            do throws(LineError) {
                inference.add(try source.document(line))
                count += 1
            } catch {
                // Each error is reported when its document is imported, unless the schema cannot be inferred.
                unreadable =
                    unreadable ?? InputError(description: "\(file), \(source.unit) \(source.lineNumber): \(error)")
            }
            progress.tell { "looked at \(counted(count, "document"))" }
        }
        progress.end()
        do {
            let classes = try inference.classes()
            let report = ["\(file): \(counted(count, "document")) of class \(className):"] + inference.report
            StandardError.write(report.map { $0 + "\n" }.joined())
            return classes
        } catch {
            throw unreadable ?? InputError(description: "\(file): \(error)")
        }
    }
}

extension DocumentTally {
    /// A line for each field that was not brought over.
    var notes: [String] {
        func lines(_ counts: [String: Int], _ text: (String, String) -> String) -> [String] {
            counts.sorted { $0.key < $1.key }.map { text($0.key, counted($0.value, "document")) }
        }
        return lines(unknown) { "the schema has no field \($0), which was left out of \($1)" }
            + lines(unsupported) { "no field can hold \($0), which was left out of \($1)" }
            + lines(missing) { "the required field \($0) is missing in \($1): new objects have it empty, 0 or false" }
    }
}

/// The field that says which partition a document belongs to.
struct PartitionField {
    let app: String
    let name: String

    /// The path of the partition that a field's value names, as listings show it.
    func path(of value: DocumentValue) throws(LineError) -> String {
        guard let partition = PartitionValue(value.json) else {
            throw LineError(field: name, "\(value.excerpt) is not a partition")
        }
        return VirtualPath(app: app, partition: partition).description
    }

    /// The number of field names that an error lists.
    private static let namesMax = 100

    /// Throws if no document of a file has the field: its name is wrong then, and all would go to one partition.
    func check(in file: String) throws {
        guard file != "-" else {
            throw InputError(description: "--allow-missing reads the documents twice: put them into a file")
        }
        var source = try ImportSource(file), names: Set<String> = []
        while let line = try source.next() {
            guard let members = (try? source.document(line))?.document else { continue }
            if members[JSONName(name)] != nil { return }
            names.formUnion(members.keys.prefix(Self.namesMax - names.count).map(\.text))
        }
        guard !names.isEmpty else { return }
        throw InputError(
            description: "\(file): no document has it: \(KnownWords.unknown("field", name, of: names.sorted()))")
    }
}
