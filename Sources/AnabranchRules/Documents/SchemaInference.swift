package import AnabranchCore

/// Finds the classes that documents fit into (`Spec/Export.md`, section 4).
package struct SchemaInference {
    /// What was seen at a place of the documents.
    private struct Seen {
        var count = 0
        var nullCount = 0
        var scalars: [PayloadType: Int] = [:]
        var documentCount = 0
        var fields: [String: Seen] = [:]
        var arrayCount = 0
        /// At most one: what stands in the arrays.
        var elements: [Seen] = []

        mutating func add(_ json: JSONValue) {
            count += 1
            if let constant = json.documentConstant {
                if constant == .null { nullCount += 1 } else { scalars[constant.type, default: 0] += 1 }
            } else if let values = json.array {
                arrayCount += 1
                if elements.isEmpty { elements.append(Seen()) }
                for value in values { elements[0].add(value) }
            } else if let members = json.object {
                documentCount += 1
                for (name, value) in members { fields[name, default: Seen()].add(value) }
            }
        }

        /// The one type that all scalars have; Mixed if there is none.
        var scalarType: PayloadType {
            if scalars.count == 1, let type = scalars.keys.first { return type }
            return Set(scalars.keys) == [.int, .double] ? .double : .null
        }
    }

    private let className: String
    private var seen = Seen()

    package init(className: String) { self.className = className }

    package mutating func add(_ document: JSONValue) { seen.add(document) }

    /// The classes, those that are embedded included.
    ///
    /// - Throws: `LineError` if the documents have no primary key.
    package func classes() throws(LineError) -> [ExportedClass] {
        guard let id = seen.fields["_id"], id.count == seen.documentCount else {
            throw LineError(field: "_id", "the primary key is missing in some documents")
        }
        guard id.documentCount == 0, id.arrayCount == 0, id.nullCount == 0,
            [.int, .string, .objectID, .uuid].contains(id.scalarType)
        else { throw LineError(field: "_id", "a primary key has one type: int, string, ObjectId or UUID") }
        var found: [ExportedClass] = []
        let key = ExportedClass.Property(name: "_id", type: id.scalarType, isNullable: false)
        let properties = properties(of: seen, named: className, leavingOut: "_id", &found)
        return [ExportedClass(name: className, kind: .topLevel, key: key, properties: properties)] + found
    }

    private func properties(
        of document: Seen, named name: String, leavingOut key: String? = nil, _ found: inout [ExportedClass]
    ) -> [ExportedClass.Property] {
        var properties: [ExportedClass.Property] = []
        for (field, seen) in document.fields.sorted(by: { $0.key < $1.key }) where field != key {
            properties.append(property(field, seen, "\(name)_\(field)", ofDocuments: document.documentCount, &found))
        }
        return properties
    }

    private func property(
        _ name: String, _ seen: Seen, _ className: String, ofDocuments count: Int, _ found: inout [ExportedClass]
    ) -> ExportedClass.Property {
        let isNullable = seen.nullCount > 0 || seen.count < count
        let kinds = [!seen.scalars.isEmpty, seen.documentCount > 0, seen.arrayCount > 0].filter(\.self).count
        if kinds == 1, seen.documentCount > 0 {
            return object(name, seen, className, .single, &found)
        }
        if kinds == 1, let elements = seen.elements.first {
            if elements.documentCount > 0, elements.documentCount == elements.count {
                return object(name, elements, className, .list, &found)
            }
            let type = elements.documentCount + elements.arrayCount == 0 ? elements.scalarType : .null
            return ExportedClass.Property(
                name: name, type: type, isNullable: type == .null || elements.nullCount > 0, collection: .list)
        }
        let type = kinds == 1 ? seen.scalarType : .null
        return ExportedClass.Property(name: name, type: type, isNullable: type == .null || isNullable)
    }

    /// A field with documents: a class of its own, unless the documents are empty or refer to something.
    private func object(
        _ name: String, _ seen: Seen, _ className: String, _ collection: CollectionType,
        _ found: inout [ExportedClass]
    ) -> ExportedClass.Property {
        guard !seen.fields.isEmpty, !seen.fields.keys.contains(where: { $0.hasPrefix("$") }) else {
            let collection = collection == .list ? collection : .dictionary
            return ExportedClass.Property(name: name, type: .null, isNullable: true, collection: collection)
        }
        let properties = properties(of: seen, named: className, &found)
        found.append(ExportedClass(name: className, kind: .embedded, key: nil, properties: properties))
        return ExportedClass.Property(
            name: name, type: .link, isNullable: collection == .single, collection: collection, target: className)
    }

    // MARK: Report

    /// A line for each field: what it was found to be, and why.
    package var report: [String] {
        Self.report(seen, prefix: "").map { "  " + $0 }
    }

    private static func report(_ document: Seen, prefix: String) -> [String] {
        document.fields.sorted { $0.key < $1.key }.flatMap { field, seen in
            var kinds = seen.scalars.sorted { $0.value > $1.value }.map { "\($0.key) \($0.value)" }
            if seen.documentCount > 0 { kinds.append("document \(seen.documentCount)") }
            if seen.arrayCount > 0 { kinds.append("array \(seen.arrayCount)") }
            if seen.nullCount > 0 { kinds.append("null \(seen.nullCount)") }
            if seen.count < document.documentCount { kinds.append("missing \(document.documentCount - seen.count)") }
            let name = prefix + field
            return ["\(name): \(kinds.joined(separator: ", "))"] + report(seen, prefix: name + ".")
                + (seen.elements.first.map { report($0, prefix: name + "[].") } ?? [])
        }
    }
}
