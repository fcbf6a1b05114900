// The canonical text of a state: equal texts mean that users see equal states (`Spec/State.md`, part E).

extension ObjectGraph {
    /// The state as one line of JSON in UTF-8: classes, objects and fields sorted, dangling links as users see them.
    ///
    /// - Throws: `ApplyError` with the code `unavailable` when objects cannot be read.
    public func canonicalJSON() throws(ApplyError) -> [UInt8] {
        let classes = schema.present.filter { schema[$0].kind != .embedded }
            .sorted { schema[$0].name.compare(schema[$1].name) < 0 }
        var output: [UInt8] = [UInt8(ascii: "{")]
        for (position, number) in classes.enumerated() {
            if position > 0 { output.append(UInt8(ascii: ",")) }
            output.appendJSON(string: schema[number].name)
            output += Array(":[".utf8)
            try appendObjects(of: number, to: &output)
            output.append(UInt8(ascii: "]"))
        }
        output.append(UInt8(ascii: "}"))
        return output
    }

    private func appendObjects(of number: ClassID, to output: inout [UInt8]) throws(ApplyError) {
        var objects: [(key: [UInt8], text: [UInt8])] = []
        try forEachObject(of: number) { key, fields throws(ApplyError) in
            var text: [UInt8] = []
            try appendObject(fields, of: number, to: &text)
            objects.append((key.json, text))
        }
        objects.sort { $0.key.compare($1.key) < 0 }
        for (position, object) in objects.enumerated() {
            if position > 0 { output.append(UInt8(ascii: ",")) }
            output += [UInt8(ascii: "[")] + object.key + [UInt8(ascii: ",")] + object.text + [UInt8(ascii: "]")]
        }
    }

    private func appendObject(_ fields: Fields, of number: ClassID, to output: inout [UInt8]) throws(ApplyError) {
        let state = schema[number]
        let columns = state.columns.compactMap { $0 }.sorted { $0.name.compare($1.name) < 0 }
        output.append(UInt8(ascii: "{"))
        for (position, column) in columns.enumerated() {
            if position > 0 { output.append(UInt8(ascii: ",")) }
            output.appendJSON(string: column.name)
            output.append(UInt8(ascii: ":"))
            try append(content(column.place.slot, of: fields, in: state), at: column.place, to: &output)
        }
        output.append(UInt8(ascii: "}"))
    }

    /// The text of what stands at a place.
    func append(_ content: Content, at place: Place, to output: inout [UInt8]) throws(ApplyError) {
        switch content {
        case .object(let fields): try appendObject(fields, of: place.target, to: &output)
        case .list(let list):
            output += Array(#"{"list":"#.utf8)
            let texts = try texts(of: list.lazy.map(\.content), at: place)
            output.appendJSON(array: texts)
            output.append(UInt8(ascii: "}"))
        case .set(let elements):
            output += Array(#"{"set":"#.utf8)
            var texts = try texts(of: elements.lazy.map(\.content), at: place).sorted { $0.compare($1) < 0 }
            for index in texts.indices.dropFirst().reversed() where texts[index] == texts[index - 1] {
                texts.remove(at: index)
            }
            output.appendJSON(array: texts)
            output.append(UInt8(ascii: "}"))
        case .dictionary(let entries):
            output += Array(#"{"dict":{"#.utf8)
            for (position, entry) in entries.enumerated() {
                if position > 0 { output.append(UInt8(ascii: ",")) }
                output.appendJSON(string: entry.key)
                output.append(UInt8(ascii: ":"))
                try append(entry.content, at: place.element, to: &output)
            }
            output += Array("}}".utf8)
        case .link(let object):
            guard try contains(object) else { return output += Array("null".utf8) }
            output += Array(#"{"link":["#.utf8)
            output.appendJSON(string: schema[object.classID].name)
            output += [UInt8(ascii: ",")] + object.key.json + Array("]}".utf8)
        default: output += content.json
        }
    }

    /// The texts of a collection's elements; dangling links in a collection of links are left out.
    private func texts(of elements: some Sequence<Content>, at place: Place) throws(ApplyError) -> [[UInt8]] {
        var texts: [[UInt8]] = []
        for element in elements {
            if !place.isMixed, case .link(let object) = element, try !contains(object) { continue }
            var text: [UInt8] = []
            try append(element, at: place.element, to: &text)
            texts.append(text)
        }
        return texts
    }
}

extension Content {
    /// The text of a scalar or null.
    fileprivate var json: [UInt8] {
        switch self {
        case .bool(let value): Array((value ? "true" : "false").utf8)
        case .int(let value): Array(#"{"int":"\#(value)"}"#.utf8)
        case .string(let text): [].appendingJSON(string: text)
        case .binary(let bytes): Array(#"{"bin":"\#(bytes.hexadecimal)"}"#.utf8)
        case .timestamp(let value): Array(#"{"ts":["\#(value.seconds)",\#(value.nanoseconds)]}"#.utf8)
        case .float(let value): Array(#"{"float":"\#(String(value.bitPattern, radix: 16))"}"#.utf8)
        case .double(let value): Array(#"{"double":"\#(String(value.bitPattern, radix: 16))"}"#.utf8)
        case .decimal(let value): Array(#"{"dec":"\#(value)"}"#.utf8)
        case .objectID(let value): Array(#"{"oid":"\#(value.bytes.hexadecimal)"}"#.utf8)
        case .uuid(let value): Array(#"{"uuid":"\#(value.text)"}"#.utf8)
        case .null, .link, .object, .list, .dictionary, .set: Array("null".utf8)
        }
    }
}

extension PrimaryKey {
    fileprivate var json: [UInt8] {
        switch self {
        case .null: Content.null.json
        case .int(let value): Content.int(value).json
        case .string(let text): Content.string(text).json
        case .globalKey(let key):
            Array(#"{"gk":"\#(String(key.high, radix: 16))-\#(String(key.low, radix: 16))"}"#.utf8)
        case .objectID(let value): Content.objectID(value).json
        case .uuid(let value): Content.uuid(value).json
        }
    }
}

extension UUIDBytes {
    /// The usual form 8-4-4-4-12, lower case.
    var text: String {
        let bytes = bytes
        return [0..<4, 4..<6, 6..<8, 8..<10, 10..<16].map { Array(bytes[$0]).hexadecimal }.joined(separator: "-")
    }
}

extension [UInt8] {
    /// Escapes quotation marks, backslashes and control characters; all other bytes stand as they are.
    fileprivate mutating func appendJSON(string: [UInt8]) {
        append(UInt8(ascii: "\""))
        for byte in string {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): self += [UInt8(ascii: "\\"), byte]
            case ..<0x20: self += Array("\\u00".utf8) + Array([byte].hexadecimal.utf8)
            default: append(byte)
            }
        }
        append(UInt8(ascii: "\""))
    }

    fileprivate func appendingJSON(string: [UInt8]) -> [UInt8] {
        var result = self
        result.appendJSON(string: string)
        return result
    }

    fileprivate mutating func appendJSON(array texts: [[UInt8]]) {
        append(UInt8(ascii: "["))
        for (position, text) in texts.enumerated() {
            if position > 0 { append(UInt8(ascii: ",")) }
            self += text
        }
        append(UInt8(ascii: "]"))
    }
}
