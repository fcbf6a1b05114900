import AnabranchCore

/// The single instructions that are tried in the exhaustive states, as changesets; which are valid depends on the
/// state.
struct SingleInstructions {
    private let author: Int
    private(set) var changesets: [[UInt8]] = []

    /// - Parameters:
    ///   - author: 0 or 1; each writes values of its own into lists, so that their order is seen.
    ///   - listCount: the number of elements of the list.
    ///   - mixed: what the elements of the list in the Mixed are; nil if it holds no list.
    init(by author: Int, listCount: Int, mixed: [ExhaustiveStates.Element]?) {
        self.author = author
        addSchema()
        addObjects()
        addFields()
        addList(.at("list"), size: listCount)
        addMixed(mixed ?? [])
    }

    private mutating func add(_ instruction: NamedInstruction) {
        changesets.append(ChangesetWriter([instruction]).bytes)
    }

    // MARK: Schema and objects

    private mutating func addSchema() {
        for name in ["A", "B", "C"] {
            add(.addTable(name))
            add(.eraseTable(name))
        }
        for (className, field) in [("A", "int"), ("A", "new"), ("B", "int")] {
            var changeset = ChangesetWriter()
            changeset.addColumn(className, field)
            changesets.append(changeset.bytes)
        }
        add(.addColumn("A", "link", .link, nullable: true, target: "B"))
        add(.addColumn("B", "link", .link, nullable: true, target: "A"))
        for field in ["int", "text", "list", "set", "dictionary", "mixed"] { add(.eraseColumn("A", field)) }
    }

    private mutating func addObjects() {
        for name in ["A", "B"] {
            let object = ObjectName(className: name)
            add(.createObject(object))
            add(.eraseObject(object))
        }
    }

    // MARK: Fields

    private mutating func addFields() {
        add(.update(FieldPath(object: ObjectName(className: "B"), field: "int"), 1))
        add(.update(.at("int"), 5))
        add(.update(.at("int"), 6, isDefault: true))
        add(.addInteger(.at("int"), 1))
        add(.update(.at("text"), .null))
        add(.update(.at("text"), "a"))
        add(.update(.at("text"), "b", isDefault: true))
        for value in [1, 2] as [Payload] {
            add(.setInsert(.at("set"), value))
            add(.setErase(.at("set"), value))
        }
        add(.clear(.at("set"), .set))
        for (key, value) in [("a", 1), ("a", 2), ("b", 1)] as [(String, Payload)] {
            add(.update(.at("dictionary", .name(key)), value))
        }
        add(.update(.at("dictionary", "a"), .erased))
        add(.clear(.at("dictionary"), .dictionary))
    }

    // MARK: Lists

    private mutating func addList(_ list: FieldPath, size: Int) {
        let inserted = Payload.int(Int64(7 + 10 * author)), updated = Payload.int(Int64(8 + 10 * author))
        let priorSize = UInt32(size)
        for index in 0...size { add(.insert(list.index(index), inserted, size: priorSize)) }
        for index in 0..<size {
            let element = list.index(index)
            add(.update(element, updated, size: priorSize))
            add(.erase(element, size: priorSize))
            for destination in 0..<size where destination != index {
                add(.move(element, to: UInt32(destination), size: priorSize))
            }
        }
        add(.clear(list, .list))
    }

    // MARK: The Mixed

    private mutating func addMixed(_ elements: [ExhaustiveStates.Element]) {
        let mixed = FieldPath.at("mixed")
        let link = Payload.link(className: [UInt8(ascii: "B")], key: 1)
        for value in [.null, .list, .dictionary, 5, link] as [Payload] {
            add(.update(mixed, value))
        }
        add(.addInteger(mixed, 1))
        add(.clear(mixed, .dictionary))
        add(.update(mixed.name("a"), 1))
        addList(mixed, size: elements.count)
        for (index, element) in elements.enumerated() {
            let path = mixed.index(index)
            for value in [.list, link, .null] as [Payload] { add(.update(path, value, size: UInt32(elements.count))) }
            switch element {
            case .value, .link: break
            case .list(let count): addList(path, size: count)
            case .dictionary:
                add(.update(path.name("a"), 1))
                add(.clear(path, .dictionary))
            }
        }
    }
}
