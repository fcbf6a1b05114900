// The canonical text of a state: equal texts mean that users see equal states (`Spec/State.md`, part E).

extension ObjectGraph {
    /// The state as one line of JSON in UTF-8: classes, objects and fields sorted, dangling links as users see them.
    ///
    /// - Throws: `ApplyError` with the outcome `unavailable` when objects cannot be read.
    public func canonicalJSON() throws(ApplyError) -> [UInt8] {
        let classes = schema.present.filter { schema[$0].kind != .embedded }
            .sorted { schema[$0].name.compare(schema[$1].name) < 0 }
        var output: [UInt8] = [UInt8(ascii: "{")]
        for (position, number) in classes.enumerated() {
            if position > 0 { output.append(UInt8(ascii: ",")) }
            JSONText.append(string: schema[number].name, to: &output)
            output += Array(":[".utf8)
            try appendObjects(of: number, to: &output)
            output.append(UInt8(ascii: "]"))
        }
        output.append(UInt8(ascii: "}"))
        return output
    }

    /// One top-level object as it stands in that line: its primary key and its fields.
    package func canonicalJSON(of object: StateObject) throws(ApplyError) -> [UInt8] {
        var text = [UInt8(ascii: "[")]
        JSONText.append(object.key ?? .null, .canonical, to: &text)
        text.append(UInt8(ascii: ","))
        try appendObject(object.fields, of: object.classID, to: &text)
        text.append(UInt8(ascii: "]"))
        return text
    }

    private func appendObjects(of number: ClassID, to output: inout [UInt8]) throws(ApplyError) {
        var objects: [(key: [UInt8], text: [UInt8])] = []
        try forEachObject(of: number) { key, fields throws(ApplyError) in
            var text: [UInt8] = []
            try appendObject(fields, of: number, to: &text)
            var keyText: [UInt8] = []
            JSONText.append(key, .canonical, to: &keyText)
            objects.append((keyText, text))
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
            JSONText.append(string: column.name, to: &output)
            output.append(UInt8(ascii: ":"))
            try append(content(column.place.slot, of: fields, in: state), at: column.place, to: &output)
        }
        output.append(UInt8(ascii: "}"))
    }

    /// Appends the text of a value or collection.
    func append(_ content: Content, at place: Place, to output: inout [UInt8]) throws(ApplyError) {
        switch content {
        case .object(let fields): try appendObject(fields, of: place.target, to: &output)
        case .list(let list):
            output += Array(#"{"list":"#.utf8)
            let texts = try texts(of: list, at: place)
            JSONText.append(array: texts, to: &output)
            output.append(UInt8(ascii: "}"))
        case .set(let elements):
            output += Array(#"{"set":"#.utf8)
            let texts = try texts(of: elements, at: place).sorted { $0.compare($1) < 0 }
            let distinct = texts.indices.lazy.filter { $0 == 0 || texts[$0] != texts[$0 - 1] }.map { texts[$0] }
            JSONText.append(array: distinct, to: &output)
            output.append(UInt8(ascii: "}"))
        case .dictionary(let entries):
            output += Array(#"{"dict":{"#.utf8)
            var isFirst = true
            try entries.forEach { entry throws(ApplyError) in
                if !isFirst { output.append(UInt8(ascii: ",")) }
                isFirst = false
                JSONText.append(string: entry.key, to: &output)
                output.append(UInt8(ascii: ":"))
                try append(entry.content, at: place.element, to: &output)
            }
            output += Array("}}".utf8)
        case .link(let object):
            guard try contains(object) else { return output += Array("null".utf8) }
            output += Array(#"{"link":["#.utf8)
            JSONText.append(string: schema[object.classID].name, to: &output)
            output.append(UInt8(ascii: ","))
            JSONText.append(object.key, .canonical, to: &output)
            output += Array("]}".utf8)
        default: JSONText.append(try content.payload, .canonical, to: &output)
        }
    }

    /// The texts of a collection's elements; dangling links in a collection of links are left out.
    private func texts(
        of elements: CountedTree<some ContentElement>, at place: Place
    ) throws(ApplyError) -> [[UInt8]] {
        var texts: [[UInt8]] = []
        try elements.forEach { element throws(ApplyError) in
            if !place.isMixed, case .link(let object) = element.content, try !contains(object) { return }
            var text: [UInt8] = []
            try append(element.content, at: place.element, to: &text)
            texts.append(text)
        }
        return texts
    }
}
