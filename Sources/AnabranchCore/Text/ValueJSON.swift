// The JSON form of values and keys, in the canonical text of a state (`Spec/State.md`, part E) and in that of a
// changeset: {"int":"-5"}, {"bin":"00ff"}, {"ts":["seconds",nanoseconds]}, {"float":"bits in hex"},
// {"double":"bits in hex"}, {"dec":"text"}, {"oid":"24 hex"}, {"uuid":"8-4-4-4-12"}, {"gk":"hi-lo"},
// {"link":["Class",key]}, null, true, false and text.

/// The treatment of values that text cannot show exactly.
package enum ValueJSONStyle: Sendable {
    /// As the reference writes a state: strings as the bytes they are, a decimal without bits that its text lacks.
    case canonical
    /// Nothing is lost: {"bytes":"hex"} for a string that is not UTF-8, and {"dec":"text","bits":"hex"} for an infinity
    /// or NaN that carries bits.
    case exact
}

extension JSONText {
    /// Appends the text of a string value, a class name or a field name.
    package static func append(
        text content: some Collection<UInt8>, _ style: ValueJSONStyle, to text: inout [UInt8]
    ) {
        if style == .canonical || String(validating: content, as: UTF8.self) != nil {
            return append(string: content, to: &text)
        }
        text += "{\"bytes\":\"".utf8
        Hex.append(content, to: &text)
        text += "\"}".utf8
    }

    /// Appends a primary key.
    package static func append(_ key: PrimaryKey, _ style: ValueJSONStyle, to text: inout [UInt8]) {
        switch key {
        case .null: append(Payload.null, style, to: &text)
        case .int(let value): append(Payload.int(value), style, to: &text)
        case .string(let value): append(Payload.string(value), style, to: &text)
        case .globalKey(let value):
            text += "{\"gk\":\"\(String(value.high, radix: 16))-\(String(value.low, radix: 16))\"}".utf8
        case .objectID(let value): append(Payload.objectID(value), style, to: &text)
        case .uuid(let value): append(Payload.uuid(value), style, to: &text)
        }
    }

    /// Appends a value as an instruction carries it. Those that are a command in place of a value have the form
    /// {"type":"ObjectValue"}.
    package static func append(_ payload: Payload, _ style: ValueJSONStyle, to text: inout [UInt8]) {
        switch payload {
        case .null: text += "null".utf8
        case .int(let value): text += "{\"int\":\"\(value)\"}".utf8
        case .bool(let value): text += "\(value)".utf8
        case .string(let value): append(text: value, style, to: &text)
        case .binary(let value):
            text += "{\"bin\":\"".utf8
            Hex.append(value, to: &text)
            text += "\"}".utf8
        case .timestamp(let value): text += "{\"ts\":[\"\(value.seconds)\",\(value.nanoseconds)]}".utf8
        case .float(let value): text += "{\"float\":\"\(String(value.bitPattern, radix: 16))\"}".utf8
        case .double(let value): text += "{\"double\":\"\(String(value.bitPattern, radix: 16))\"}".utf8
        case .decimal(let value):
            let isWhole = style == .canonical || value.hasPlainText
            text += "{\"dec\":\"\(value)\"\(isWhole ? "" : ",\"bits\":\"\(Hex.encode(value.bytes))\"")}".utf8
        case .link(let className, let key):
            text += "{\"link\":[".utf8
            append(text: className, style, to: &text)
            text += ",".utf8
            append(key, style, to: &text)
            text += "]}".utf8
        case .objectID(let value): text += "{\"oid\":\"\(value)\"}".utf8
        case .uuid(let value): text += "{\"uuid\":\"\(value)\"}".utf8
        case .objectValue, .dictionary, .list, .set, .erased: text += "{\"type\":\"\(payload.type)\"}".utf8
        }
    }
}
