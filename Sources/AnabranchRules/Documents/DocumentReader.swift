package import AnabranchCore
import AnabranchQuery

/// Turns documents in MongoDB's extended JSON into lines of an export (`Spec/Export.md`, section 4).
package struct DocumentReader {
    private let classes: [String: ExportedClass]
    private let className: String
    private let ignored: Set<String>
    /// The content of documents that is not in the lines, by the fields' names as `a.b`.
    package private(set) var tally = DocumentTally()

    /// - Parameters:
    ///   - classes: all classes, including those that are embedded and linked to.
    ///   - className: the class of the documents.
    ///   - ignored: fields that are not a property, on purpose.
    /// - Throws: `LineError` if documents cannot be of that class.
    package init(_ classes: [ExportedClass], className: String, ignoring ignored: Set<String> = []) throws(LineError) {
        self.classes = Dictionary(classes.map { ($0.name, $0) }) { first, _ in first }
        self.className = className
        self.ignored = ignored
        guard let declared = self.classes[className] else {
            let names = classes.filter { $0.kind != .embedded }.map(\.name).sorted()
            throw LineError("there is no class \(className); allowed: \(names.joined(separator: ", "))")
        }
        guard declared.kind == .topLevel, declared.key != nil else {
            throw LineError("objects of \(className) have no primary key, or are not stored for themselves")
        }
    }

    /// The line of a document.
    package mutating func line(_ document: DocumentValue) throws(LineError) -> [UInt8] {
        guard let members = document.document, let declared = classes[className], let keyProperty = declared.key else {
            throw LineError("not a JSON object")
        }
        guard let id = members[JSONName(keyProperty.name)] else {
            throw LineError(field: keyProperty.name, "it is missing")
        }
        do throws(FieldError) {
            let key: Payload
            do { key = try scalar(id, keyProperty) } catch { throw error.within(keyProperty.name) }
            let fields = try fields(members, of: declared, prefix: "")
            return ExportLine.text(className: className.utf8, key: ExportedValue.value(key).text, fields: fields)
        } catch { throw LineError(field: error.field, error.reason) }
    }

    private mutating func fields(
        _ members: [JSONName: DocumentValue], of declared: ExportedClass, prefix: String
    ) throws(FieldError) -> [(name: [UInt8], value: ExportedValue)] {
        var fields: [(name: [UInt8], value: ExportedValue)] = []
        for property in declared.properties {
            let name = prefix + property.name
            guard let found = members[JSONName(property.name)] else {
                if property.isRequired { tally.missing[name, default: 0] += 1 }
                continue
            }
            do {
                fields.append((Array(property.name.utf8), try value(found, property, name)))
            } catch {
                guard let type = error.unsupportedType else { throw error.within(name) }
                tally.unsupported["\(name): \(type)", default: 0] += 1
            }
        }
        let known = Set((declared.properties + [declared.key].compactMap(\.self)).map { JSONName($0.name) })
        for name in members.keys where !known.contains(name) && !(prefix.isEmpty && ignored.contains(name.text)) {
            tally.unknown[prefix + name.text, default: 0] += 1
        }
        return fields
    }

    // MARK: Values

    private mutating func value(
        _ found: DocumentValue, _ property: ExportedClass.Property, _ name: String
    ) throws(FieldError) -> ExportedValue {
        var element = property
        element.collection = .single
        switch property.collection {
        case .single: return try single(found, property, name)
        case .list, .set:
            guard let values = found.isNull ? [] : found.array else { throw FieldError(found, "not an array") }
            var elements: [ExportedValue] = []
            for value in values { elements.append(try single(value, element, name)) }
            return property.collection == .list ? .list(elements) : ExportedValue(setOf: elements)
        case .dictionary:
            guard let members = found.isNull ? [:] : found.document else { throw FieldError(found, "not a document") }
            try checkKeys(of: members, found)
            var entries: [(key: [UInt8], value: ExportedValue)] = []
            for (key, value) in members { entries.append((Array(key.utf8), try single(value, element, name))) }
            return ExportedValue(dictionaryOf: entries)
        }
    }

    private mutating func single(
        _ found: DocumentValue, _ property: ExportedClass.Property, _ name: String
    ) throws(FieldError) -> ExportedValue {
        if property.type == .null { return try mixed(found, name) }
        guard let target = property.target else { return .value(try scalar(found, property)) }
        guard !found.isNull else {
            guard property.isNullable else { throw FieldError("null stands in a list of objects") }
            return .value(.null)
        }
        guard let declared = classes[target] else { throw FieldError("there is no class \(target)") }
        if declared.kind == .embedded {
            guard let members = found.document else { throw FieldError(found, "not a document") }
            try checkKeys(of: members, found)
            return .object(try fields(members, of: declared, prefix: name + "."))
        }
        guard let (className, id) = found.reference else { return .value(try link(to: declared, found)) }
        guard className == target else { throw FieldError(found, "not a reference to an object of \(target)") }
        countRest(of: found, name)
        return .value(try link(to: declared, id))
    }

    private mutating func mixed(_ found: DocumentValue, _ name: String) throws(FieldError) -> ExportedValue {
        if let payload = found.payload { return .value(payload) }
        if let values = found.array {
            var elements: [ExportedValue] = []
            for value in values { elements.append(try mixed(value, name)) }
            return .list(elements)
        }
        guard let members = found.document else { throw FieldError(found, "not a value that objects can hold") }
        if let (className, id) = found.reference {
            countRest(of: found, name)
            if let declared = classes[className] { return .value(try link(to: declared, id)) }
            // The server decides whether the class exists.
            guard let key = id.payload.flatMap({ PrimaryKey($0) }) else { throw FieldError(id, "not a primary key") }
            return .value(.link(className: Array(className.utf8), key: key))
        }
        try checkKeys(of: members, found)
        var entries: [(key: [UInt8], value: ExportedValue)] = []
        for (key, value) in members { entries.append((Array(key.utf8), try mixed(value, name))) }
        return ExportedValue(dictionaryOf: entries)
    }

    /// Names that begin with `$` are those of extended JSON.
    private func checkKeys(of members: [JSONName: DocumentValue], _ found: DocumentValue) throws(FieldError) {
        guard !members.keys.contains(where: { $0.utf8.first == UInt8(ascii: "$") }) else {
            throw FieldError(found, "not a value that objects can hold")
        }
    }

    /// Counts the parts of a reference that a link cannot hold.
    private mutating func countRest(of reference: DocumentValue, _ name: String) {
        for key in reference.document?.keys ?? [:].keys where key != "$ref" && key != "$id" {
            tally.unknown["\(name).\(key)", default: 0] += 1
        }
    }

    private func link(to declared: ExportedClass, _ id: DocumentValue) throws(FieldError) -> Payload {
        guard let property = declared.key else { throw FieldError("objects of \(declared.name) have no primary key") }
        guard let key = PrimaryKey(try scalar(id, property)) else { throw FieldError(id, "not a primary key") }
        return .link(className: Array(declared.name.utf8), key: key)
    }

    private func scalar(_ found: DocumentValue, _ property: ExportedClass.Property) throws(FieldError) -> Payload {
        guard !found.isNull else {
            guard property.isNullable else { throw FieldError("null, but the schema has the field as required") }
            return .null
        }
        switch found {
        case .scalar, .number: break
        default: throw FieldError(found, "not a value that a field of type \(property.type) can hold")
        }
        guard let payload = found.converted(to: property.type) else {
            throw FieldError(found, "not of type \(property.type)")
        }
        return payload
    }
}

/// The content of documents that is not in the lines: the number of times, by the fields' names as `a.b`.
package struct DocumentTally: Sendable {
    /// Fields that the class does not have.
    package var unknown: [String: Int] = [:]
    /// Fields that were left out, with a type that no field can hold.
    package var unsupported: [String: Int] = [:]
    /// Fields that are required and were not there.
    package var missing: [String: Int] = [:]

    package init() {}
}

/// The reason why a field cannot be taken.
private struct FieldError: Error {
    var field: String?
    var reason: String
    /// The type of a value that no field can hold: the field is left out, and the others are taken.
    var unsupportedType: String?

    init(_ reason: String) { self.reason = reason }

    init(_ value: DocumentValue, _ what: String) {
        reason = "\(value.excerpt) is \(what)"
        if case .unsupported(let type) = value { unsupportedType = type }
    }

    func within(_ name: String) -> FieldError {
        var error = self
        error.field = field ?? name
        return error
    }
}

extension ExportedClass.Property {
    /// True if an object without the field gets a default value that nobody has written, such as an empty text or 0.
    fileprivate var isRequired: Bool { !isNullable && collection == .single && target == nil }
}
