import AnabranchCore
import AnabranchQuery

/// Writes the values of an object of a type, and records as few changes as possible (`Spec/Objects.md`, section 4).
struct ContentWriter {
    let classes: _BoundClasses

    /// Writes the properties of a new object, except those that keep their initial values.
    func write(_ contents: [_ValueContent], to object: DynamicObject, of bound: BoundClass) throws {
        for (index, content) in contents.enumerated() where index != bound.schema.key {
            let property = try self.property(index, of: bound), shape = bound.schema.fields[index].shape
            let initial = _ValueContent(initialOf: shape)
            try located(bound, index) { try write(content, in: property, of: object, from: initial) }
        }
    }

    /// Writes the properties in which two values differ.
    func write(
        _ contents: [_ValueContent], from old: [_ValueContent], to object: DynamicObject, of bound: BoundClass
    ) throws {
        for (index, content) in contents.enumerated() where index != bound.schema.key && content != old[index] {
            let property = try self.property(index, of: bound)
            try located(bound, index) { try write(content, in: property, of: object, from: old[index]) }
        }
    }

    private func property(_ index: Int, of bound: BoundClass) throws(ObjectError) -> Property {
        guard let property = bound.properties[index] else {
            throw ObjectError(.mismatch, "the class \(bound.schema.className) lacks \(bound.schema.fields[index].name)")
        }
        return property
    }

    private func located(_ bound: BoundClass, _ index: Int, _ body: () throws -> Void) throws {
        do { try body() } catch let error as ObjectError {
            throw error.at("\(bound.schema.className).\(bound.schema.fields[index].name)")
        }
    }

    // MARK: Properties

    private func write(
        _ content: _ValueContent, in property: Property, of object: DynamicObject, from old: _ValueContent
    ) throws {
        guard content != old else { return }
        let name = String(decoding: property.name, as: UTF8.self)
        switch content {
        case .sum(let value):
            guard case .sum(let before) = old else { return try object.set(property, to: .int(value)) }
            try object.add(value &- before, to: name)
        case .value(let payload): try object.set(property, to: payload)
        case .object(let embedded):
            if case .object(let before) = old, let inner = try object.object(name) {
                try write(embedded, from: before, to: inner)
            } else {
                try write(embedded, to: try object.createObject(name))
            }
        case .list(let elements):
            if property.collection == .single { try object.set(name, to: .list) }
            try write(elements, from: old.elements, to: try object.list(name))
        case .dictionary(let entries):
            if property.collection == .single { try object.set(name, to: .dictionary) }
            try write(entries, from: old.entries, to: try object.dictionary(name))
        case .set(let elements): try write(elements, from: old, to: try object.set(name))
        }
    }

    func write(_ embedded: _ValueContent.EmbeddedContent, to object: DynamicObject) throws {
        try write(embedded.contents, to: object, of: try bound(embedded.schema))
    }

    func write(
        _ embedded: _ValueContent.EmbeddedContent, from old: _ValueContent.EmbeddedContent, to object: DynamicObject
    ) throws {
        try write(embedded.contents, from: old.contents, to: object, of: try bound(embedded.schema))
    }

    private func bound(_ schema: ObjectSchema) throws(ObjectError) -> BoundClass {
        guard let bound = try classes.bound(schema) else {
            throw ObjectError(.mismatch, "there is no class \(schema.className)")
        }
        return bound
    }

    // MARK: Collections

    private func write(_ elements: [Payload], from old: _ValueContent, to set: DynamicSet) throws {
        var before: Set<Payload> = []
        if case .set(let elements) = old { before = Set(elements) }
        let after = Set(elements)
        if after.isEmpty { return try set.removeAll() }
        // In an order that does not depend on hashes.
        if case .set(let old) = old { try set.subtract(old.filter { !after.contains($0) }) }
        try set.formUnion(elements.filter { !before.contains($0) }.sorted { "\($0)" < "\($1)" })
    }

    private func write(
        _ entries: [String: _ValueContent], from old: [String: _ValueContent], to dictionary: DynamicDictionary
    ) throws {
        if entries.isEmpty { return try dictionary.removeAll() }
        for key in old.keys.sorted() where entries[key] == nil { try dictionary.remove(key) }
        for (name, content) in entries.sorted(by: { $0.key < $1.key }) where content != old[name] {
            // As it is composed in the store.
            let key = old.index(forKey: name).map { old[$0].key } ?? name
            if case .object(let embedded) = content, case .object(let before)? = old[key],
                let inner = try dictionary.object(for: key)
            {
                try write(embedded, from: before, to: inner)
            } else {
                try dictionary.set(content.payload, for: key)
                try fill(content) {
                    try dictionary.object(for: key)
                } list: {
                    try dictionary.list(for: key)
                } dictionary: {
                    try dictionary.dictionary(for: key)
                }
            }
        }
    }

    private func write(_ elements: [_ValueContent], from old: [_ValueContent], to list: DynamicList) throws {
        if elements.isEmpty { return try list.removeAll() }
        for step in ListDifference(from: old, to: elements).steps {
            switch step {
            case .remove(let index): try list.remove(at: index)
            case .insert(let index, let element): try insert(elements[element], into: list, at: index)
            case .replace(let index, let before, let element):
                if case .object(let embedded) = elements[element], case .object(let before) = old[before] {
                    try write(embedded, from: before, to: try list.object(at: index))
                } else {
                    try list.set(elements[element].payload, at: index)
                    try fill(elements[element], in: list, at: index)
                }
            }
        }
    }

    func insert(_ content: _ValueContent, into list: DynamicList, at index: Int) throws {
        try list.insert(content.payload, at: index)
        try fill(content, in: list, at: index)
    }

    private func fill(_ content: _ValueContent, in list: DynamicList, at index: Int) throws {
        try fill(content) {
            try list.object(at: index)
        } list: {
            try list.list(at: index)
        } dictionary: {
            try list.dictionary(at: index)
        }
    }

    /// Writes the contents of a new embedded object or a nested collection.
    private func fill(
        _ content: _ValueContent, object: () throws -> DynamicObject?, list: () throws -> DynamicList,
        dictionary: () throws -> DynamicDictionary
    ) throws {
        switch content {
        case .value, .sum, .set: return
        case .object(let embedded): if let object = try object() { try write(embedded, to: object) }
        case .list(let elements): if !elements.isEmpty { try write(elements, from: [], to: try list()) }
        case .dictionary(let entries): if !entries.isEmpty { try write(entries, from: [:], to: try dictionary()) }
        }
    }
}

extension _ValueContent {
    /// The value that a new object has in a property of this shape.
    init(initialOf shape: _ValueShape) {
        switch StateValue.initial(shape.type, isNullable: shape.isNullable, shape.collection) {
        case .list: self = .list([])
        case .set: self = .set([])
        case .dictionary: self = .dictionary([:])
        case let value: self = .value(value.payload ?? .null)
        }
    }

    fileprivate var elements: [_ValueContent] { if case .list(let elements) = self { elements } else { [] } }
    fileprivate var entries: [String: _ValueContent] {
        if case .dictionary(let entries) = self { entries } else { [:] }
    }
}
