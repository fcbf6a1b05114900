package import AnabranchCore

/// Finds the classes that documents fit into (`Spec/Export.md`, section 4).
package struct SchemaInference {
    /// The values found at one place of the documents.
    private struct Seen {
        var count = 0
        var nullCount = 0
        var scalars: [PayloadType: Int] = [:]
        /// True if there is an Int that no Double holds.
        var hasWideInt = false
        var documentCount = 0
        /// Documents that refer to others, which are counted separately.
        var referenceCount = 0
        /// Values that no field can hold.
        var unsupported: [String: Int] = [:]
        var fields: [JSONName: Seen] = [:]
        var arrayCount = 0
        /// The elements of all the arrays, as one `Seen`; empty if there are none.
        var elements: [Seen] = []

        mutating func add(_ value: DocumentValue) {
            count += 1
            switch value {
            case .scalar(.null): nullCount += 1
            case .scalar, .number:
                // A number that no type holds is an error later, when its document is converted.
                let payload = value.payload ?? .double(0)
                scalars[payload.type, default: 0] += 1
                if case .int(let integer) = payload, Double(exactly: integer) == nil { hasWideInt = true }
            case .array(let values):
                arrayCount += 1
                if elements.isEmpty { elements.append(Seen()) }
                for value in values { elements[0].add(value) }
            case .document where value.reference != nil: referenceCount += 1
            case .document(let members):
                documentCount += 1
                for (name, value) in members { fields[name, default: Seen()].add(value) }
            case .unsupported(let type): unsupported[type, default: 0] += 1
            }
        }

        /// The one type that all scalars have; Mixed if there is none.
        var scalarType: PayloadType {
            if scalars.count == 1, let type = scalars.keys.first { return type }
            return Set(scalars.keys) == [.int, .double] && !hasWideInt ? .double : .null
        }

        /// True if all values but null are scalars, documents or arrays.
        var hasOneKind: Bool {
            [!scalars.isEmpty, documentCount > 0, arrayCount > 0, referenceCount > 0].filter(\.self).count == 1
                && referenceCount == 0
        }
    }

    /// The embedded classes, and the names that are taken.
    private struct FoundClasses {
        var classes: [ExportedClass] = []
        var names: Set<String>

        /// Takes a name, or one like it: two places can lead to the same name, as `a.b_c` and `a_b.c`, or to one that
        /// is too long.
        mutating func newName(_ wanted: String) -> String {
            var name = "", number = 1
            repeat {
                let end = number == 1 ? "" : "_\(number)"
                name = wanted
                while name.utf8.count + end.utf8.count > ExportedClass.nameBytesMax { name.removeLast() }
                name += end
                number += 1
            } while !names.insert(name).inserted
            return name
        }
    }

    private let className: String
    private var seen = Seen()

    package init(className: String) { self.className = className }

    package mutating func add(_ document: DocumentValue) { seen.add(document) }

    /// The classes, including the embedded ones.
    ///
    /// - Throws: `LineError` if the documents have no primary key.
    package func classes() throws(LineError) -> [ExportedClass] {
        guard let id = seen.fields["_id"], id.count == seen.documentCount else {
            throw LineError(field: "_id", "the primary key is missing in some documents")
        }
        guard id.documentCount == 0, id.arrayCount == 0, id.nullCount == 0, id.referenceCount == 0,
            id.unsupported.isEmpty, [.int, .string, .objectID, .uuid].contains(id.scalarType)
        else { throw LineError(field: "_id", "a primary key has one type: int, string, ObjectId or UUID") }
        var found = FoundClasses(names: [className])
        let key = ExportedClass.Property(name: "_id", type: id.scalarType, isNullable: false)
        let properties = properties(of: seen, named: className, leavingOut: "_id", &found)
        return [ExportedClass(name: className, kind: .topLevel, key: key, properties: properties)]
            + found.classes
    }

    private func properties(
        of document: Seen, named name: String, leavingOut key: String? = nil, _ found: inout FoundClasses
    ) -> [ExportedClass.Property] {
        var properties: [ExportedClass.Property] = []
        for (field, seen) in document.fields.sorted(by: { $0.key < $1.key }) where field.text != key {
            properties.append(
                property(field.text, seen, "\(name)_\(field)", ofDocuments: document.documentCount, &found))
        }
        return properties
    }

    private func property(
        _ name: String, _ seen: Seen, _ className: String, ofDocuments count: Int, _ found: inout FoundClasses
    ) -> ExportedClass.Property {
        let mixed = ExportedClass.Property(name: name, type: .null, isNullable: true)
        guard seen.hasOneKind else { return mixed }
        if seen.documentCount > 0 { return object(name, seen, className, .single, &found) ?? mixed }
        if let elements = seen.elements.first {
            // A list cannot be null, and would be empty then.
            guard seen.nullCount == 0 else { return mixed }
            if elements.documentCount > 0, elements.documentCount == elements.count,
                let property = object(name, elements, className, .list, &found)
            {
                return property
            }
            let isScalar = elements.hasOneKind && !elements.scalars.isEmpty
            let type = isScalar ? elements.scalarType : .null
            return ExportedClass.Property(
                name: name, type: type, isNullable: type == .null || elements.nullCount > 0, collection: .list)
        }
        let isNullable = seen.nullCount > 0 || seen.count - seen.unsupported.values.reduce(0, +) < count
        return ExportedClass.Property(
            name: name, type: seen.scalarType, isNullable: seen.scalarType == .null || isNullable)
    }

    /// A field with documents: a class of its own, or a dictionary if the documents are empty. Nil if neither holds
    /// them all.
    private func object(
        _ name: String, _ seen: Seen, _ className: String, _ collection: CollectionType,
        _ found: inout FoundClasses
    ) -> ExportedClass.Property? {
        guard !seen.fields.keys.contains(where: { $0.utf8.first == UInt8(ascii: "$") }) else { return nil }
        guard !seen.fields.isEmpty else {
            guard collection == .single, seen.nullCount == 0 else { return nil }
            return ExportedClass.Property(name: name, type: .null, isNullable: true, collection: .dictionary)
        }
        let className = found.newName(className)
        let properties = properties(of: seen, named: className, &found)
        found.classes.append(ExportedClass(name: className, kind: .embedded, key: nil, properties: properties))
        return ExportedClass.Property(
            name: name, type: .link, isNullable: collection == .single, collection: collection, target: className)
    }

    // MARK: Report

    /// A line for each field: the type that was found for it, and why.
    package var report: [String] {
        Self.report(seen, prefix: "").map { "  " + $0 }
    }

    private static func report(_ document: Seen, prefix: String) -> [String] {
        document.fields.sorted { $0.key < $1.key }.flatMap { field, seen in
            var kinds = seen.scalars.sorted { $0.value > $1.value }.map { "\($0.key) \($0.value)" }
            if seen.documentCount > 0 { kinds.append("document \(seen.documentCount)") }
            if seen.arrayCount > 0 { kinds.append("array \(seen.arrayCount)") }
            if seen.referenceCount > 0 { kinds.append("reference \(seen.referenceCount)") }
            kinds += seen.unsupported.sorted { $0.key < $1.key }.map {
                "\($0.key) \($0.value), which no field can hold"
            }
            if seen.nullCount > 0 { kinds.append("null \(seen.nullCount)") }
            if seen.count < document.documentCount { kinds.append("missing \(document.documentCount - seen.count)") }
            let name = prefix + field.text
            return ["\(name): \(kinds.joined(separator: ", "))"] + report(seen, prefix: name + ".")
                + (seen.elements.first.map { report($0, prefix: name + "[].") } ?? [])
        }
    }
}
