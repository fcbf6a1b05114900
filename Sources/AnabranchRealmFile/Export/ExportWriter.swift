import AnabranchCore

/// Makes the lines of an export, one after the other (`Spec/Export.md`).
final class ExportWriter {
    /// What an element counts that is left out: at least so much is written of one that is not.
    private static let elementBytesMin = 4

    private let reading: FileReading
    private var budget: OutputBudget
    /// The line under way.
    private var line: [UInt8] = []
    /// What the line under way is about, and what is written in it.
    private var object: (content: ClassContent, key: PrimaryKey)?
    private var inner: (content: ClassContent, property: Column)?

    init(_ reading: FileReading, budget: OutputBudget) { (self.reading, self.budget) = (reading, budget) }

    var lineCount: Int { budget.lineCount }
    var byteCount: Int { budget.byteCount }

    /// Calls `write` with each line, without its line feed.
    ///
    /// - Throws: what `write` throws; `RealmFileError`.
    /// - Returns: the number of objects.
    func forEachLine(_ write: ([UInt8]) throws -> Void) throws -> Int {
        let tables = try Tables(reading)
        let classes = try ExportClasses(tables, in: reading) { objects, keyBytes throws(RealmFileError) in
            try budget.count(objects: objects, keyBytes: keyBytes)
        }
        try end(Array(ExportLine.headerText.utf8), write)
        for content in classes.all { try end(Array(classes.declaration(content).json.encoded.utf8), write) }
        var count = 0
        for content in classes.all where content.table.kind == .topLevel {
            var last: PrimaryKey?
            try content.objects.forEachPosition { position in
                let key = content.objects.key(at: position)
                begin(content, key)
                let isFirst = try reading.salvaging(place) { () throws(RealmFileError) in
                    guard key != last else { throw .damaged("two objects have this primary key") }
                }
                last = key
                guard isFirst else { return }
                let elements = try content.elements(at: position)
                try writeFields(elements, of: content, in: classes, level: 0)
                line.append(UInt8(ascii: "]"))
                try end(line, write)
                count += 1
            }
        }
        return count
    }

    private func end(_ line: [UInt8], _ write: ([UInt8]) throws -> Void) throws {
        try budget.countLine(line.count, before: next)
        try write(line)
    }

    private func begin(_ content: ClassContent, _ key: PrimaryKey) {
        line.removeAll(keepingCapacity: true)
        line.append(UInt8(ascii: "["))
        line += content.label
        line.append(UInt8(ascii: ","))
        JSONText.append(key, .exact, to: &line)
        (object, inner) = ((content, key), nil)
        line.append(UInt8(ascii: ","))
    }

    private var place: RealmFileError.Place {
        var place = inner.map { $0.content.table.place(of: $0.property) } ?? object?.content.table.place
        place?.object = object.map { Self.text($0.key) }
        return place ?? RealmFileError.Place()
    }

    /// What is to be written next, in words.
    private var next: String {
        object.map { "the object \(Self.text($0.key)) of \(String(excerptOf: $0.content.table.className))" }
            ?? "the classes"
    }

    private static func text(_ key: PrimaryKey) -> String {
        var text: [UInt8] = []
        JSONText.append(key, .exact, to: &text)
        return String(excerptOf: text)
    }

    // MARK: Objects

    private func writeFields(
        _ elements: [Element?], of content: ClassContent, in classes: ExportClasses, level: Int
    ) throws(RealmFileError) {
        guard level < RealmFileLimits.nestingLevelsMax else {
            throw .damaged("more than \(RealmFileLimits.nestingLevelsMax) levels of objects and collections")
        }
        let outer = inner
        defer { inner = outer }
        line.append(UInt8(ascii: "{"))
        var isFirst = true
        for (property, element) in zip(content.properties, elements) {
            guard let element else { continue }
            inner = (content, property)
            try write(after: &isFirst) { () throws(RealmFileError) in
                try writeLabel(property.label)
                try writeField(element, of: property, in: classes, level: level)
            }
        }
        line.append(UInt8(ascii: "}"))
    }

    /// Writes a member or element with the comma before it, or nothing if it is damaged and left out.
    private func write(
        after isFirst: inout Bool, _ body: () throws(RealmFileError) -> Void
    ) throws(RealmFileError) {
        let start = line.count
        if !isFirst { line.append(UInt8(ascii: ",")) }
        if try reading.salvaging(place, body) {
            isFirst = false
        } else {
            line.removeLast(line.count - start)
            try budget.count(Self.elementBytesMin, before: next)
        }
    }

    private func writeLabel(_ label: [UInt8]) throws(RealmFileError) {
        try count(label.count) { line += label }
    }

    /// - Parameter bytes: at least so many are written.
    private func count(_ bytes: Int, _ write: () -> Void) throws(RealmFileError) {
        try budget.count(bytes, before: next)
        let start = line.count
        write()
        try budget.count(line.count - start - bytes, before: next)
    }

    private func writeField(
        _ element: Element, of property: Column, in classes: ExportClasses, level: Int
    ) throws(RealmFileError) {
        guard case .collection(let root) = element else {
            try checkNull(element, in: property)
            return try write(element, of: property, in: classes, level: level)
        }
        switch property.collection {
        case .dictionary:
            try writeDictionary(try reading.entries(root), of: property, in: classes, level: level)
        case .set: try writeSet(root, of: property, in: classes, level: level)
        case .list, .single:
            let leaves =
                root == 0
                ? []
                : try reading.leaves(root) { node throws(RealmFileError) in
                    try property.elementLeaf(node, in: reading)
                }
            try writeList(leaves, of: property, in: classes, level: level)
        }
    }

    private func checkNull(_ element: Element, in property: Column) throws(RealmFileError) {
        guard !element.isNull || property.takesNull else { throw .damaged("null, which may not stand here") }
    }

    // MARK: Collections

    /// - Parameter property: that which the list stands in; nil of a list in a Mixed value.
    private func writeList(
        _ leaves: [some ColumnLeaf], of property: Column?, in classes: ExportClasses, level: Int
    ) throws(RealmFileError) {
        line += #"{"list":["#.utf8
        var isFirst = true
        for leaf in leaves {
            for index in 0..<leaf.count {
                try write(after: &isFirst) { () throws(RealmFileError) in
                    let element = leaf.element(at: index)
                    if let property { try checkNull(element, in: property) }
                    try write(element, of: property, in: classes, level: level)
                }
            }
        }
        line += "]}".utf8
    }

    private func writeSet(
        _ root: Int64, of property: Column, in classes: ExportClasses, level: Int
    ) throws(RealmFileError) {
        let leaves =
            root == 0
            ? []
            : try reading.leaves(root) { node throws(RealmFileError) in
                try property.elementLeaf(node, in: reading)
            }
        // The order of the file depends on its format. What is equal is held once, and so the set is no larger than
        // the file has made it.
        var texts: Set<[UInt8]> = []
        for leaf in leaves {
            for index in 0..<leaf.count {
                var isFirst = true
                let start = line.count
                try write(after: &isFirst) { () throws(RealmFileError) in
                    let element = leaf.element(at: index)
                    try checkNull(element, in: property)
                    guard !element.isCollection else { throw .damaged("a collection in a set") }
                    try write(element, of: property, in: classes, level: level)
                }
                if !isFirst { texts.insert(Array(line[start...])) }
                line.removeLast(line.count - start)
            }
        }
        line += #"{"set":"#.utf8
        JSONText.append(array: texts.sorted { $0.lexicographicallyPrecedes($1) }, to: &line)
        line.append(UInt8(ascii: "}"))
    }

    /// - Parameter property: that which the dictionary stands in; nil of one in a Mixed value.
    private func writeDictionary(
        _ entries: DictionaryEntries, of property: Column?, in classes: ExportClasses, level: Int
    ) throws(RealmFileError) {
        var places: [[UInt8]: (leaf: Int, index: Int)] = [:]
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
        if hasNullKey {
            try reading.salvaging(self.place) { () throws(RealmFileError) in throw .damaged("a key is null") }
        }
        line += #"{"dict":{"#.utf8
        var isFirst = true
        for (key, place) in places.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            try write(after: &isFirst) { () throws(RealmFileError) in
                guard String(validating: key, as: UTF8.self) != nil else {
                    throw .damaged("the key \(Hex.encode(key.prefix(32))) of a dictionary is not UTF-8")
                }
                let element = entries.value(at: place)
                if let property, !property.takes(element) {
                    throw .damaged("a dictionary has a value that its type does not allow")
                }
                try writeLabel(JSONText.label(key))
                try write(element, of: property, in: classes, level: level)
            }
        }
        line += "}}".utf8
    }

    // MARK: Values

    private func write(
        _ element: Element, of property: Column?, in classes: ExportClasses, level: Int
    ) throws(RealmFileError) {
        switch element {
        case .value(let payload): try write(payload)
        case .link(let link): try write(link, of: property, in: classes, level: level)
        case .list(let root):
            guard level < RealmFileLimits.nestingLevelsMax else {
                throw .damaged("more than \(RealmFileLimits.nestingLevelsMax) levels of collections")
            }
            let leaves =
                root == 0
                ? []
                : try reading.leaves(root) { node throws(RealmFileError) in
                    try MixedLeaf(node, in: reading)
                }
            try writeList(leaves, of: nil, in: classes, level: level + 1)
        case .dictionary(let root):
            guard level < RealmFileLimits.nestingLevelsMax else {
                throw .damaged("more than \(RealmFileLimits.nestingLevelsMax) levels of collections")
            }
            try writeDictionary(try reading.entries(root), of: nil, in: classes, level: level + 1)
        case .collection: throw .damaged("a collection where a value belongs")
        }
    }

    private func write(_ payload: Payload) throws(RealmFileError) {
        let bytes =
            switch payload {
            case .string(let text): text.count
            case .binary(let data): 2 * data.count
            case .link(let className, .string(let key)): className.count + key.count
            default: 0
            }
        try count(bytes) { JSONText.append(payload, .exact, to: &line) }
    }

    private func write(
        _ link: ObjectReference, of property: Column?, in classes: ExportClasses, level: Int
    ) throws(RealmFileError) {
        let isOwn = property?.type == .link
        let target = try classes.content(ofTable: link.table ?? (isOwn ? property?.target : nil))
        guard target.table.kind == .embedded else {
            return try write(.link(className: target.table.className, key: try target.key(of: link.object)))
        }
        guard isOwn else { throw .damaged("an embedded object in a Mixed value") }
        let position = try target.embedded(link.object)
        try writeFields(try target.elements(at: position), of: target, in: classes, level: level + 1)
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
