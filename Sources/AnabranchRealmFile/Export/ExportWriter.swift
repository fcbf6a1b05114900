import AnabranchCore

/// Writes the lines of an export, one after the other (`Spec/Export.md`).
struct ExportWriter {
    /// The bytes that count for an element that is left out: any element that is written takes at least as many.
    private static let elementBytesMin = 4

    /// The place in an object at which something is written.
    private struct Spot {
        let content: ClassContent
        let property: Column
        /// The number of objects and collections around it.
        var level: Int
        /// True if it is in a collection of a Mixed value, about which the property says nothing.
        var isNested = false

        /// The column that states the type of the value; nil inside a Mixed value.
        var column: Column? { isNested ? nil : property }
        var place: RealmFileError.Place { content.table.place(of: property) }
    }

    private let reading: FileReading
    private let classes: ExportClasses

    /// - Parameter line: counts the objects that are found.
    init(_ reading: FileReading, line: inout OutputLine) throws(RealmFileError) {
        self.reading = reading
        classes = try ExportClasses(try Tables(reading), in: reading) { objects, keyBytes throws(RealmFileError) in
            try line.count(objects: objects, keyBytes: keyBytes)
        }
    }

    /// Calls `body` with each line, without its line feed.
    ///
    /// - Throws: the errors of `body`; `RealmFileError`.
    /// - Returns: the number of objects.
    func forEachLine(in line: inout OutputLine, _ body: ([UInt8]) throws -> Void) throws -> Int {
        try line.write(line: ExportLine.headerText, body)
        for content in classes.all { try line.write(line: classes.declaration(content).json.encoded, body) }
        var count = 0
        for content in classes.all where content.table.kind == .topLevel {
            var last: PrimaryKey?
            try content.objects.forEachPosition { position in
                let key = content.objects.key(at: position), isFirst = key != last
                line.begin(content, key)
                last = key
                guard isFirst else { return try report(.damaged("two objects have this primary key"), in: line) }
                try write(content, at: position, level: 0, to: &line)
                line.append(UInt8(ascii: "]"))
                try line.end(body)
                count += 1
            }
        }
        return count
    }

    /// Reports damage while salvaging, and throws it otherwise.
    ///
    /// - Parameter spot: the place in the line; nil for the object as a whole.
    private func report(_ error: RealmFileError, at spot: Spot? = nil, in line: OutputLine) throws(RealmFileError) {
        try reading.report(error.within(line.place(spot?.place)))
    }

    // MARK: Objects

    /// Writes the fields of an object.
    private func write(
        _ content: ClassContent, at position: Int, level: Int, to line: inout OutputLine
    ) throws(RealmFileError) {
        let fields = try content.fields(at: position)
        guard level < RealmFileLimits.nestingLevelsMax else {
            throw .damaged("more than \(RealmFileLimits.nestingLevelsMax) levels of objects and collections")
        }
        line.append(UInt8(ascii: "{"))
        var isFirst = true
        for (index, property) in content.properties.enumerated() {
            guard let element = fields[index] else { continue }
            let spot = Spot(content: content, property: property, level: level)
            try write(after: &isFirst, at: spot, to: &line) { line throws(RealmFileError) in
                try write(label: property.label, to: &line)
                try write(field: element, at: spot, to: &line)
            }
        }
        line.append(UInt8(ascii: "}"))
    }

    /// Writes a member or element with the comma before it, or nothing if it is damaged and left out.
    private func write(
        after isFirst: inout Bool, at spot: Spot, to line: inout OutputLine,
        _ body: (inout OutputLine) throws(RealmFileError) -> Void
    ) throws(RealmFileError) {
        let start = line.bytes.count
        if !isFirst { line.append(UInt8(ascii: ",")) }
        do throws(RealmFileError) {
            try body(&line)
            isFirst = false
        } catch {
            try report(error, at: spot, in: line)
            line.remove(from: start)
            try line.count(skipped: Self.elementBytesMin)
        }
    }

    private func write(label: [UInt8], to line: inout OutputLine) throws(RealmFileError) {
        try line.append(counting: label.count) { $0 += label }
    }

    private func write(field element: Element, at spot: Spot, to line: inout OutputLine) throws(RealmFileError) {
        guard case .collection(let root) = element else {
            try checkNull(element, at: spot)
            return try write(element, at: spot, to: &line)
        }
        switch spot.property.collection {
        case .dictionary: try write(dictionary: root, at: spot, to: &line)
        case .set: try write(set: try elements(root, at: spot), at: spot, to: &line)
        case .list, .single: try write(list: try elements(root, at: spot), at: spot, to: &line)
        }
    }

    private func checkNull(_ element: Element, at spot: Spot) throws(RealmFileError) {
        guard spot.column?.takesNull ?? true || !element.isNull else {
            throw .damaged("null, which may not stand here")
        }
    }

    // MARK: Collections

    /// - Parameter root: the root of a list or set; 0 if it is empty.
    private func elements(_ root: Int64, at spot: Spot) throws(RealmFileError) -> [AnyLeaf] {
        guard root != 0 else { return [] }
        return try reading.leaves(root) { node throws(RealmFileError) in
            guard let column = spot.column else { return AnyLeaf(try MixedLeaf(node, in: reading)) }
            return try column.elementLeaf(node, in: reading)
        }
    }

    private func write(list leaves: [AnyLeaf], at spot: Spot, to line: inout OutputLine) throws(RealmFileError) {
        line.append(#"{"list":["#)
        var isFirst = true
        for leaf in leaves {
            for index in 0..<leaf.count {
                try write(after: &isFirst, at: spot, to: &line) { line throws(RealmFileError) in
                    let element = leaf.element(at: index)
                    try checkNull(element, at: spot)
                    try write(element, at: spot, to: &line)
                }
            }
        }
        line.append("]}")
    }

    private func write(set leaves: [AnyLeaf], at spot: Spot, to line: inout OutputLine) throws(RealmFileError) {
        // The order in the file depends on its format. Equal texts are held once, so the set is no larger than in the
        // file.
        var texts: Set<[UInt8]> = []
        for leaf in leaves {
            for index in 0..<leaf.count {
                var isFirst = true
                let start = line.bytes.count
                try write(after: &isFirst, at: spot, to: &line) { line throws(RealmFileError) in
                    let element = leaf.element(at: index)
                    try checkNull(element, at: spot)
                    guard !element.isCollection else { throw .damaged("a collection in a set") }
                    try write(element, at: spot, to: &line)
                }
                if !isFirst { texts.insert(Array(line.bytes[start...])) }
                line.remove(from: start)
            }
        }
        line.append(#"{"set":["#)
        for (index, text) in texts.sorted(by: { $0.lexicographicallyPrecedes($1) }).enumerated() {
            if index > 0 { line.append(UInt8(ascii: ",")) }
            line.append(text)
        }
        line.append("]}")
    }

    private func write(dictionary root: Int64, at spot: Spot, to line: inout OutputLine) throws(RealmFileError) {
        let entries = try reading.entries(root)
        var places: [[UInt8]: DictionaryEntries.Place] = [:]
        var hasNullKey = false
        try entries.forEachKey { key, place throws(RealmFileError) in
            guard let key else {
                guard !hasNullKey else { throw .damaged("a dictionary has the key null twice") }
                hasNullKey = true
                return
            }
            guard places.updateValue(place, forKey: key) == nil else {
                throw .damaged("a dictionary has the key \(String(excerptOf: key)) twice")
            }
        }
        if hasNullKey { try report(.damaged("a key is null"), at: spot, in: line) }
        line.append(#"{"dict":{"#)
        var isFirst = true
        for (key, place) in places.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            try write(after: &isFirst, at: spot, to: &line) { line throws(RealmFileError) in
                guard String(validating: key, as: UTF8.self) != nil else {
                    throw .damaged("the key \(Hex.encode(key.prefix(32))) of a dictionary is not UTF-8")
                }
                let element = entries.value(at: place)
                guard spot.column?.takes(element) ?? true else {
                    throw .damaged("a dictionary has a value that its type does not allow")
                }
                try write(label: JSONText.label(key), to: &line)
                try write(element, at: spot, to: &line)
            }
        }
        line.append("}}")
    }

    // MARK: Values

    private func write(_ element: Element, at spot: Spot, to line: inout OutputLine) throws(RealmFileError) {
        switch element {
        case .value(let payload): try write(payload, to: &line)
        case .link(let link): try write(link, at: spot, to: &line)
        case .list(let root):
            let nested = try nested(spot)
            try write(list: try elements(root, at: nested), at: nested, to: &line)
        case .dictionary(let root): try write(dictionary: root, at: try nested(spot), to: &line)
        case .collection: throw .damaged("a collection where a value belongs")
        }
    }

    /// The place of a value inside a collection of a Mixed value.
    private func nested(_ spot: Spot) throws(RealmFileError) -> Spot {
        guard spot.level < RealmFileLimits.nestingLevelsMax else {
            throw .damaged("more than \(RealmFileLimits.nestingLevelsMax) levels of collections")
        }
        return Spot(content: spot.content, property: spot.property, level: spot.level + 1, isNested: true)
    }

    private func write(_ payload: Payload, to line: inout OutputLine) throws(RealmFileError) {
        let count =
            switch payload {
            case .string(let text): text.count
            case .binary(let data): 2 * data.count
            case .link(let className, .string(let key)): className.count + key.count
            default: 0
            }
        try line.append(counting: count) { JSONText.append(payload, .exact, to: &$0) }
    }

    private func write(_ link: ObjectReference, at spot: Spot, to line: inout OutputLine) throws(RealmFileError) {
        let column = spot.column, isOwn = column?.type == .link
        let target = try classes.content(ofTable: link.table ?? (isOwn ? column?.target : nil))
        guard target.table.kind == .embedded else {
            return try write(.link(className: target.table.className, key: try target.key(of: link.object)), to: &line)
        }
        guard isOwn else { throw .damaged("an embedded object in a Mixed value") }
        try write(target, at: try target.embedded(link.object), level: spot.level + 1, to: &line)
    }
}

extension JSONText {
    /// The name of a member with its colon.
    static func label(_ name: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        append(string: name, to: &text)
        text.append(UInt8(ascii: ":"))
        return text
    }
}
