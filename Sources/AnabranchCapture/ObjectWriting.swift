import AnabranchCore

extension ObjectChange {
    /// A class with its properties by name.
    private struct ClassForm {
        let number: ClassID
        let properties: [ExactString: Property]
    }

    /// Carries out changes in a transaction of the replica.
    /// - Returns: what was to be written to objects that do not exist any more, and what was in others that do not win.
    static func write(_ changes: [ObjectChange], in transaction: WriteTransaction) throws -> [CaptureConflict] {
        let state = transaction.state
        var forms: [ExactString: ClassForm] = [:]
        for schema in state.classes {
            let named = schema.properties.map { (ExactString(String(decoding: $0.name, as: UTF8.self)), $0) }
            forms[ExactString(String(decoding: schema.name, as: UTF8.self))] = ClassForm(
                number: schema.number, properties: Dictionary(named) { first, _ in first })
        }
        var objects: [(object: DynamicObject, isNew: Bool)?] = []
        var lost: [CaptureConflict] = []
        // Links lead to objects that exist, perhaps only after them in the list.
        for change in changes {
            guard let form = forms[ExactString(change.className)] else {
                objects.append(nil)
                continue
            }
            let reference = ObjectReference(classID: form.number, key: .uuid(change.guid))
            switch change.kind {
            case .create: objects.append(try transaction.create(form.number, reference.key))
            case .update: objects.append(try transaction.object(reference).map { ($0, false) })
            case .erase:
                objects.append(nil)
                if let object = try transaction.object(reference) { try transaction.delete(object) }
            }
        }
        for (change, found) in zip(changes, objects) where change.kind != .erase {
            guard let (object, isNew) = found, let form = forms[ExactString(change.className)] else {
                lost.append(CaptureConflict(.erased, change))
                continue
            }
            var replaced: [(column: String, value: String)] = []
            for (name, value) in change.fields {
                var value = value
                if case .link(let target, let key) = value {
                    let number = forms[ExactString(String(decoding: target, as: UTF8.self))]?.number
                    let linked = try number.flatMap { try transaction.object(ObjectReference(classID: $0, key: key)) }
                    if linked == nil { value = .null }
                }
                guard let property = form.properties[ExactString(name)] else {
                    throw CaptureError(
                        .schemaMismatch, "the file has no property of that name", table: change.className, column: name)
                }
                let old = try object.value(name)
                if isNew ? value == .null && property.isNullable : old.isSame(as: value) { continue }
                if change.wins, !isNew, old != .null {
                    if value == .null { continue }
                    replaced.append((name, old.text))
                }
                try object.set(property, to: value)
            }
            if !replaced.isEmpty {
                lost.append(CaptureConflict(.matched, replaced, of: change.guid, in: change.table))
            }
        }
        return lost
    }
}

extension Payload {
    /// True if rows have one value for both: their times have milliseconds.
    fileprivate func isSame(as value: Payload) -> Bool {
        guard case .timestamp(let time) = self, case .timestamp(let other) = value, let known = time.milliseconds else {
            return self == value
        }
        return known == other.milliseconds
    }

    /// The value in words.
    var text: String {
        switch self {
        case .null: "null"
        case .int(let value): "\(value)"
        case .double(let value): "\(value)"
        case .string(let bytes): String(decoding: bytes, as: UTF8.self)
        case .binary(let bytes): Hex.encode(bytes)
        case .timestamp(let time): DateForm.rfc3339.value(ofMilliseconds: time.milliseconds ?? 0).string ?? ""
        case .link(_, .uuid(let guid)): Hex.encode(guid.bytes)
        default: "\(type)"
        }
    }
}

/// A class as the replica needs it for a table.
struct WantedClass: Sendable {
    struct WantedProperty: Sendable {
        let name: String
        let type: PayloadType
        let target: String?
    }

    let name: String
    let properties: [WantedProperty]

    /// The property that has the identity of a row.
    private static let keyName = "_id"

    /// Adds the classes and properties that are missing.
    /// - Returns: the types of the properties, by class, and if they can be null.
    /// - Throws: `CaptureError` with the code `schemaMismatch` if there is something else under a name.
    static func add(
        _ wanted: [WantedClass], to transaction: WriteTransaction
    ) throws -> [[(type: PayloadType, isNullable: Bool)]] {
        let known = Set(transaction.classNames.map { ExactString($0) })
        for one in wanted where !known.contains(ExactString(one.name)) {
            try transaction.addClass(one.name, key: keyName, .uuid)
        }
        let state = transaction.state
        return try wanted.map { one in
            guard let schema = state.schema(ofClass: Array(one.name.utf8)), schema.kind == .topLevel,
                schema.key?.name == Array(keyName.utf8), schema.key?.type == .uuid
            else {
                let reason = "the file has a class of that name whose key is not a UUID with the name \(keyName)"
                throw CaptureError(.schemaMismatch, reason, table: one.name)
            }
            return try one.properties.map { property in
                guard let found = schema.property(named: Array(property.name.utf8)) else {
                    try property.add(to: one.name, in: transaction)
                    return (property.type, true)
                }
                let target = found.target.flatMap { state.schema(of: $0) }.map {
                    String(decoding: $0.name, as: UTF8.self)
                }
                guard found.collection == .single, !found.isEmbedded, !found.isKey, target == property.target else {
                    let reason = "the property of that name in the file is of another kind"
                    throw CaptureError(.schemaMismatch, reason, table: one.name, column: property.name)
                }
                return (found.type, found.isNullable)
            }
        }
    }
}

extension WantedClass.WantedProperty {
    fileprivate func add(to className: String, in transaction: WriteTransaction) throws {
        if let target {
            try transaction.addLink(name, to: target, of: className)
        } else {
            try transaction.addColumn(name, type, isNullable: true, to: className)
        }
    }
}

extension ColumnForm {
    /// The property that a column becomes.
    var wanted: WantedClass.WantedProperty {
        WantedClass.WantedProperty(name: column.name, type: type, target: column.target)
    }
}
