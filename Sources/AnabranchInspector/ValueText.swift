import AnabranchCore
import AnabranchExplain

/// The values of a state as JSON for pages: in the form of an export (`Spec/Export.md`, section 2), where what is long
/// is cut, and each collection and embedded object says what it is:
///
///     {"object": {the first fields}, "class": "Address", "count": 3}
///     {"cut": "the beginning of a text", "bytes": 70000}
///     {"cut": {"bin": "00ff"}, "bytes": 70000}
///     {"list": [the first elements], "count": 1000}
///     {"dict": {the first entries}, "count": 1000}
///
/// One of them writes one answer, and keeps it from becoming long, whatever the state holds.
struct ValueText {
    /// The most bytes of one text or binary value.
    var textBytesMax: Int
    /// The most elements of one collection.
    var elementsMax: Int
    /// The depth of collections and embedded objects in each other from which on they are cut to nothing.
    var depthMax: Int
    /// The bytes that are left: without any, texts are empty and collections have no elements.
    private(set) var bytesLeft = ValueText.answerBytesMax

    /// The most bytes of values in one answer, give or take the last value.
    static let answerBytesMax = 4 << 20

    /// As cells of a table show them.
    static let cell = ValueText(textBytesMax: 160, elementsMax: 4, depthMax: 2)
    /// As the page of an object shows them.
    static let whole = ValueText(textBytesMax: 16 << 10, elementsMax: 1_000, depthMax: 32)

    /// The members of an object: a JSON object. At the top all of them are there.
    mutating func json(of object: StateObject, _ texts: ValueTexts, depth: Int = 0) -> String {
        var members: [String] = []
        for property in texts.properties(of: object) where depth == 0 || bytesLeft > 0 {
            bytesLeft -= property.name.count
            let value = json(of: object.value(of: property), texts, depth: depth + 1)
            members.append("\(jsonText(property.name)):\(value)")
        }
        return "{" + members.joined(separator: ",") + "}"
    }

    mutating func json(of value: StateValue, _ texts: ValueTexts, depth: Int = 0) -> String {
        let bytesMax = max(0, min(textBytesMax, bytesLeft))
        switch value {
        case .string(let text) where text.count > bytesMax:
            bytesLeft -= bytesMax
            return jsonObject(["cut": jsonText(beginning(of: text, bytesMax)), "bytes": "\(text.count)"])
        case .binary(let bytes) where bytes.count > bytesMax / 2:
            return jsonObject(["cut": payload(.binary(Array(bytes.prefix(bytesMax / 2)))), "bytes": "\(bytes.count)"])
        case .object(let object):
            let fields = depth < depthMax ? json(of: object, texts, depth: max(1, depth)) : "{}"
            return jsonObject([
                "object": fields, "class": jsonText(texts.className(of: object)),
                "count": "\(texts.properties(of: object).count)",
            ])
        case .list(let list): return elements("list", list.count, texts, depth) { list[$0] }
        case .set(let set): return elements("set", set.count, texts, depth) { set[$0] }
        case .dictionary(let dictionary):
            var entries: [String] = []
            for key in dictionary.keys.prefix(depth < depthMax ? elementsMax : 0) where bytesLeft > 0 {
                bytesLeft -= key.count
                entries.append("\(jsonText(key)):\(json(of: dictionary[key] ?? .null, texts, depth: depth + 1))")
            }
            return jsonObject(["dict": "{" + entries.joined(separator: ",") + "}", "count": "\(dictionary.count)"])
        default: return payload(texts.payload(of: value) ?? .null)
        }
    }

    private mutating func elements(
        _ name: String, _ count: Int, _ texts: ValueTexts, _ depth: Int, _ element: (Int) -> StateValue
    ) -> String {
        let shown = depth < depthMax ? min(count, elementsMax) : 0
        var elements: [String] = []
        while elements.count < shown, bytesLeft > 0 {
            elements.append(json(of: element(elements.count), texts, depth: depth + 1))
        }
        return jsonObject([name: jsonArray(elements), "count": "\(count)"])
    }

    private mutating func payload(_ payload: Payload) -> String {
        var text: [UInt8] = []
        JSONText.append(payload, .exact, to: &text)
        bytesLeft -= text.count
        return String(decoding: text, as: UTF8.self)
    }

    /// The first bytes of a text, without half a character at the end.
    private func beginning(of text: [UInt8], _ bytesMax: Int) -> ArraySlice<UInt8> {
        var end = bytesMax
        while end > 0, text[end] & 0xC0 == 0x80 { end -= 1 }
        return text[..<end]
    }
}

extension ClassSchema {
    /// The class and its properties as pages show them.
    func json(in state: ObjectGraph) -> String {
        let kinds: [TableType: String] = [
            .topLevel: "top-level", .embedded: "embedded", .topLevelAsymmetric: "asymmetric",
        ]
        return jsonObject([
            "name": jsonText(name), "kind": jsonText(kinds[kind]), "key": key?.json(in: state) ?? "null",
            "properties": jsonArray(properties.map { $0.json(in: state) }),
        ])
    }
}

extension Property {
    fileprivate func json(in state: ObjectGraph) -> String {
        let target = target.flatMap { state.schema(of: $0)?.name }
        return jsonObject([
            "name": jsonText(name), "nullable": "\(isNullable)",
            "type": jsonText(isEmbedded ? "object" : type == .null ? "mixed" : "\(type)".lowercased()),
            "collection": jsonText(collection == .single ? nil : "\(collection)".lowercased()),
            "target": target.map { jsonText($0) } ?? "null",
        ])
    }
}
