package import AnabranchCore

/// A value of a document of MongoDB, from extended JSON or from BSON (`Spec/Export.md`, section 4).
package enum DocumentValue: Equatable, Sendable {
    /// A value that states its type.
    case scalar(Payload)
    /// A bare number of JSON, with all its digits.
    case number([UInt8])
    case array([DocumentValue])
    case document([JSONName: DocumentValue])
    /// A value of a type that no field can hold, by the type's name in extended JSON.
    case unsupported(String)

    package static let null = DocumentValue.scalar(.null)

    var isNull: Bool { self == .null }
    var array: [DocumentValue]? { if case .array(let values) = self { values } else { nil } }
    package var document: [JSONName: DocumentValue]? { if case .document(let members) = self { members } else { nil } }

    var text: String? {
        if case .scalar(.string(let bytes)) = self { String(decoding: bytes, as: UTF8.self) } else { nil }
    }

    /// The value with its type, which for a bare number is decided by its digits: Int without point and exponent,
    /// otherwise Double. Nil for values that are not scalars, and for a number that neither type holds.
    var payload: Payload? {
        switch self {
        case .scalar(let payload): return payload
        case .number(let digits):
            let text = String(decoding: digits, as: UTF8.self)
            if let integer = Int64(text) { return .int(integer) }
            guard let value = Double(text), value.isFinite else { return nil }
            let isReal = digits.contains { $0 == UInt8(ascii: ".") || $0 | 0x20 == UInt8(ascii: "e") }
            guard !isReal, let exact = DecimalText(exactly: value) else { return isReal ? .double(value) : nil }
            return DecimalText(digits)?.hasValue(of: exact) == true ? .double(value) : nil
        case .array, .document, .unsupported: return nil
        }
    }

    /// The class and the key of a reference to another document.
    var reference: (className: String, id: DocumentValue)? {
        guard case .document(let members) = self, let name = members["$ref"]?.text, let id = members["$id"] else {
            return nil
        }
        return (name, id)
    }

    /// The value in extended JSON.
    package var json: JSONValue {
        switch self {
        case .scalar(.string(let bytes)): .string(String(decoding: bytes, as: UTF8.self))
        case .scalar(.int(let value)): ["$numberLong": .string("\(value)")]
        case .scalar(let payload): payload.extendedJSON
        // Only a number that no Double holds cannot be read.
        case .number(let digits): (try? JSONValue(parsing: digits)) ?? .real(.infinity)
        case .array(let values): .array(values.map(\.json))
        case .document(let members): .object(members.mapValues(\.json))
        case .unsupported(let type): [type: true]
        }
    }

    /// The value in the words of an error.
    package var excerpt: String {
        switch self {
        case .scalar(.int(let value)): "\(value)"
        case .number(let digits): String(excerptOf: digits)
        default: json.excerpt
        }
    }
}

// MARK: Constants of extended JSON

extension DocumentValue {
    /// An object of extended JSON: a constant, or a document.
    ///
    /// - Throws: `LineError` if a name is there twice.
    init(members: [(name: JSONName, value: DocumentValue)]) throws(LineError) {
        if let first = members.first, first.name.utf8.first == UInt8(ascii: "$"),
            let constant = members.count == 1
                ? Self.constant(first.name.text, first.value) : Self.constant(ofSeveral: members)
        {
            self = constant
            return
        }
        var document: [JSONName: DocumentValue] = [:]
        document.reserveCapacity(members.count)
        for member in members where document.updateValue(member.value, forKey: member.name) != nil {
            throw LineError("the name \(String(excerptOf: Array(member.name.utf8))) is there twice")
        }
        self = .document(document)
    }

    private static func constant(_ name: String, _ value: DocumentValue) -> DocumentValue? {
        switch name {
        case "$oid": return value.text.flatMap(Payload.init(objectID:)).map(scalar)
        case "$uuid": return value.text.flatMap(Payload.init(uuid:)).map(scalar)
        case "$numberInt": return value.text.flatMap { Int32($0) }.map { .scalar(.int(Int64($0))) }
        case "$numberLong": return value.text.flatMap { Int64($0) }.map { .scalar(.int($0)) }
        case "$numberDouble": return value.text.flatMap { Double(extendedJSON: $0) }.map { .scalar(.double($0)) }
        case "$numberDecimal": return value.text.flatMap(Payload.init(decimal:)).map(scalar)
        case "$date": return date(value).map { .scalar(.date(milliseconds: $0)) }
        case "$binary":
            return value.document?.count == 2 ? binary(value.document?["base64"], value.document?["subType"]) : nil
        case "$symbol": return value.text == nil ? nil : value
        case "$undefined": return value == .scalar(.bool(true)) ? .null : nil
        case "$code", "$dbPointer", "$maxKey", "$minKey", "$regularExpression", "$regex", "$timestamp":
            return .unsupported(name)
        default: return nil
        }
    }

    private static func constant(ofSeveral members: [(name: JSONName, value: DocumentValue)]) -> DocumentValue? {
        let values = Dictionary(members.map { ($0.name, $0.value) }) { first, _ in first }
        guard members.count == 2, values.count == 2 else { return nil }
        if let type = values["$type"], let bytes = values["$binary"] { return binary(bytes, type) }
        if values["$code"] != nil, values["$scope"] != nil { return .unsupported("$code") }
        return values["$regex"] != nil && values["$options"] != nil ? .unsupported("$regex") : nil
    }

    private static func date(_ value: DocumentValue) -> Int64? {
        if let text = value.text { return RFC3339.milliseconds(text.utf8) }
        guard case .int(let milliseconds) = value.payload else { return nil }
        return milliseconds
    }

    private static func binary(_ base64: DocumentValue?, _ subtype: DocumentValue?) -> DocumentValue? {
        guard let base64 = base64?.text, let subtype = subtype?.text else { return nil }
        // Old versions of mongoexport wrote subtypes from 80 on with a sign.
        let digits = subtype.hasPrefix("ffffff") ? String(subtype.dropFirst(6)) : subtype
        return Payload(base64: base64, subtype: digits).map(scalar)
    }
}
