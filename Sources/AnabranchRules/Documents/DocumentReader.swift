package import AnabranchCore
import AnabranchQuery

/// Makes lines of an export of documents in MongoDB's extended JSON (`Spec/Export.md`, section 4).
package struct DocumentReader {
    private let classes: [String: ExportedClass]
    private let className: String
    private let ignored: Set<String>
    /// Fields that the class does not have, as `a.b`, and how often they were left out.
    package private(set) var unknownFields: [String: Int] = [:]

    /// - Parameters:
    ///   - classes: with those that are embedded and linked to.
    ///   - className: the class of the documents.
    ///   - ignored: fields that are no property and meant so.
    /// - Throws: `LineError` if documents cannot be of that class.
    package init(_ classes: [ExportedClass], className: String, ignoring ignored: Set<String> = []) throws(LineError) {
        self.classes = Dictionary(classes.map { ($0.name, $0) }) { first, _ in first }
        self.className = className
        self.ignored = ignored
        guard let declared = self.classes[className] else {
            let names = classes.filter { $0.kind != .embedded }.map(\.name).sorted()
            throw LineError("there is no class \(className): there are \(names.joined(separator: ", "))")
        }
        guard declared.kind == .topLevel, declared.key != nil else {
            throw LineError("objects of \(className) have no primary key, or are not stored for themselves")
        }
    }

    /// The line of a document.
    package mutating func line(_ document: JSONValue) throws(LineError) -> [UInt8] {
        guard let members = document.object, let declared = classes[className], let keyProperty = declared.key else {
            throw LineError("no JSON object")
        }
        guard let id = members[keyProperty.name] else { throw LineError(field: keyProperty.name, "it is missing") }
        let key: Payload
        do { key = try scalar(id, keyProperty) } catch { throw LineError(field: keyProperty.name, error.reason) }
        let fields = try fields(members, of: declared, prefix: "")
        return ExportLine.text(className: className.utf8, key: ExportedValue.value(key).text, fields: fields)
    }

    private mutating func fields(
        _ members: [String: JSONValue], of declared: ExportedClass, prefix: String
    ) throws(LineError) -> [(name: [UInt8], value: ExportedValue)] {
        var fields: [(name: [UInt8], value: ExportedValue)] = []
        for property in declared.properties {
            guard let json = members[property.name] else { continue }
            let name = prefix + property.name
            do {
                fields.append((Array(property.name.utf8), try value(json, property, name)))
            } catch {
                throw LineError(field: error.field ?? name, error.reason)
            }
        }
        let known = Set(declared.properties.map(\.name)).union([declared.key?.name ?? ""])
        for name in members.keys where !known.contains(name) && !(prefix.isEmpty && ignored.contains(name)) {
            unknownFields[prefix + name, default: 0] += 1
        }
        return fields
    }

    // MARK: Values

    private mutating func value(
        _ json: JSONValue, _ property: ExportedClass.Property, _ name: String
    ) throws(LineError) -> ExportedValue {
        var element = property
        element.collection = .single
        switch property.collection {
        case .single: return try single(json, property, name)
        case .list, .set:
            guard let values = json == .null ? [] : json.array else { throw LineError("\(json.excerpt) is no array") }
            var elements: [ExportedValue] = []
            for value in values { elements.append(try single(value, element, name)) }
            return property.collection == .list ? .list(elements) : ExportedValue(setOf: elements)
        case .dictionary:
            guard let members = json == .null ? [:] : json.object else {
                throw LineError("\(json.excerpt) is no document")
            }
            var entries: [(key: [UInt8], value: ExportedValue)] = []
            for (key, value) in members { entries.append((Array(key.utf8), try single(value, element, name))) }
            return ExportedValue(dictionaryOf: entries)
        }
    }

    private mutating func single(
        _ json: JSONValue, _ property: ExportedClass.Property, _ name: String
    ) throws(LineError) -> ExportedValue {
        if property.type == .null { return try mixed(json) }
        guard let target = property.target else { return .value(try scalar(json, property)) }
        guard json != .null else {
            guard property.isNullable else { throw LineError("null stands in a list of objects") }
            return .value(.null)
        }
        guard let declared = classes[target] else { throw LineError("there is no class \(target)") }
        if declared.kind == .embedded {
            guard let members = json.object else { throw LineError("\(json.excerpt) is no document") }
            return .object(try fields(members, of: declared, prefix: name + "."))
        }
        guard let keyProperty = declared.key else { throw LineError("objects of \(target) have no primary key") }
        guard let key = PrimaryKey(try scalar(json["$id"] ?? json, keyProperty)) else {
            throw LineError("\(json.excerpt) is no primary key")
        }
        return .value(.link(className: Array(target.utf8), key: key))
    }

    private func mixed(_ json: JSONValue) throws(LineError) -> ExportedValue {
        if let constant = json.documentConstant { return .value(constant) }
        if let values = json.array {
            var elements: [ExportedValue] = []
            for value in values { elements.append(try mixed(value)) }
            return .list(elements)
        }
        let members = json.object ?? [:]
        if let className = members["$ref"]?.string, let id = members["$id"], let declared = classes[className],
            let keyProperty = declared.key, let key = PrimaryKey(try scalar(id, keyProperty))
        {
            return .value(.link(className: Array(className.utf8), key: key))
        }
        guard !members.keys.contains(where: { $0.hasPrefix("$") }) else {
            throw LineError("\(json.excerpt) is no value that objects can hold")
        }
        var entries: [(key: [UInt8], value: ExportedValue)] = []
        for (key, value) in members { entries.append((Array(key.utf8), try mixed(value))) }
        return ExportedValue(dictionaryOf: entries)
    }

    private func scalar(_ json: JSONValue, _ property: ExportedClass.Property) throws(LineError) -> Payload {
        guard let constant = json.documentConstant else {
            throw LineError("\(json.excerpt) is no value that a field of type \(property.type) can hold")
        }
        guard constant != .null else {
            guard property.isNullable else { throw LineError("null, but the schema has the field as required") }
            return .null
        }
        guard let payload = constant.converted(to: property.type) else {
            throw LineError("\(json.excerpt) is no \(property.type)")
        }
        return payload
    }
}

extension JSONValue {
    /// The constant that this is, with its type; nil for arrays, documents, and what is malformed.
    var documentConstant: Payload? {
        if case .real(let value) = self { return .double(value) }
        if let text = self["$numberDouble"]?.string { return Self.real(text).map(Payload.double) }
        if self["$undefined"] != nil { return .null }
        return constant
    }
}

extension Payload {
    /// The same value in a type that holds it exactly, or as a number of another size; nil if there is none.
    fileprivate func converted(to type: PayloadType) -> Payload? {
        if self.type == type { return self }
        switch (self, type) {
        case (.double(let value), .int): return Int64(exactly: value).map(Payload.int)
        case (.int(let value), .double): return .double(Double(value))
        case (.int(let value), .float): return .float(Float(value))
        case (.double(let value), .float): return .float(Float(value))
        case (.int(let value), .decimal): return Decimal128(text: Array("\(value)".utf8)).map(Payload.decimal)
        case (.double(let value), .decimal): return Decimal128(text: Array("\(value)".utf8)).map(Payload.decimal)
        default: return nil
        }
    }
}
