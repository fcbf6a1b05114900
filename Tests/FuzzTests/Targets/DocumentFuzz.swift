import AnabranchCore
import AnabranchRules

/// JSON that can be read is written so that it reads the same, and has no more levels than are allowed.
func fuzzJSON(_ bytes: [UInt8]) -> String? {
    guard let value = try? JSONValue(parsing: bytes) else { return nil }
    guard let again = try? JSONValue(parsing: value.encoded.utf8) else { return "written, it cannot be read" }
    return again == value ? nil : "written, it reads \(again.encoded), not \(value.encoded)"
}

/// Lines, each of which is taken both for a document and for a line of an export. A document becomes a line of an
/// export; such a line is imported as a whole, or refused.
func fuzzDocuments(_ bytes: [UInt8]) -> String? {
    guard let classes = DocumentFuzz.classes, var reader = try? DocumentReader(classes, className: "Task") else {
        return "there are no classes"
    }
    var inference = SchemaInference(className: "Seen")
    if let document = try? DocumentValue(bson: bytes) { inference.add(document) }
    for line in bytes.split(separator: 10).prefix(16) {
        if let document = try? DocumentValue(line: Array(line)) {
            inference.add(document)
            if let text = try? reader.line(document) {
                guard let exported = try? ExportLine(parsing: text), case .object = exported else {
                    return "a document became what is not a line of an object: \(String(decoding: text, as: UTF8.self))"
                }
                if let problem = DocumentFuzz.problem(importing: exported) { return problem }
            }
        }
        if let exported = try? ExportLine(parsing: line), let problem = DocumentFuzz.problem(importing: exported) {
            return problem
        }
    }
    _ = try? inference.classes()
    _ = inference.report
    return nil
}

private enum DocumentFuzz {
    private static let schema = #"""
        {"title": "Task", "required": ["_id", "done"], "properties": {
            "_id": {"bsonType": "objectId"}, "done": {"bsonType": "bool"}, "title": {"bsonType": "string"},
            "count": {"bsonType": "long"}, "size": {"bsonType": "double"}, "price": {"bsonType": "decimal"},
            "due": {"bsonType": "date"}, "token": {"bsonType": "uuid"}, "data": {"bsonType": "binData"},
            "any": {"bsonType": "mixed"}, "tags": {"bsonType": "array", "items": {"bsonType": "string"}},
            "marks": {"bsonType": "array", "uniqueItems": true, "items": {"bsonType": "int"}},
            "extra": {"bsonType": "object", "additionalProperties": {"bsonType": "int"}},
            "place": {"bsonType": "object", "title": "Place", "properties": {"city": {"bsonType": "string"}}}}}
        """#

    static let classes: [ExportedClass]? = {
        let file = AppFile(path: "data_sources/db/app/tasks/schema.json", bytes: schema.utf8)
        return (try? AppExport(files: [file]))?.schema.exportedClasses
    }()

    /// A state with the classes and no objects.
    private static let state: ObjectGraph = {
        var graph = ObjectGraph()
        _ = try? graph.write(as: 2) { try $0.add(classes ?? []) }
        return graph
    }()

    static func problem(importing line: ExportLine) -> String? {
        var graph = state
        do {
            _ = try graph.write(as: 2) { transaction in
                switch line {
                case .header: break
                case .declaration(let declared): try transaction.add([declared])
                case .object(let className, let key, let fields):
                    _ = try transaction.importObject(className, key, fields)
                }
            }
            return nil
        } catch is LineError {
            return nil
        } catch is ApplyError {
            return nil
        } catch {
            return "a line is refused with \(error)"
        }
    }
}
