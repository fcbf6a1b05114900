import AnabranchCore

/// The single instructions that are tried in the small world, as changesets; which are valid depends on the state.
struct SingleInstructions {
    private static let (text, link, null) = (3, 9, 0)
    private static let (erased, dictionary, list) = (-4, -3, -5)
    private static let clears = (list: 1, dictionary: 2, set: 3)

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
        addList("list", [], size: listCount)
        addMixed(mixed ?? [])
    }

    private mutating func add(_ opcode: ChangesetWriter.Opcode, _ write: (inout ChangesetWriter) -> Void) {
        var changeset = ChangesetWriter()
        changeset.write(opcode)
        write(&changeset)
        changesets.append(changeset.bytes)
    }

    // MARK: Schema and objects

    private mutating func addSchema() {
        for name in ["A", "B", "C"] {
            var declaration = ChangesetWriter()
            declaration.addTable(name, primaryKey: "_id")
            changesets.append(declaration.bytes)
            add(.eraseTable) { $0.write(name: name) }
        }
        for (className, field) in [("A", "int"), ("A", "new"), ("B", "int")] {
            var declaration = ChangesetWriter()
            declaration.addColumn(className, field)
            changesets.append(declaration.bytes)
        }
        for (className, target) in [("A", "B"), ("B", "A")] {
            add(.addColumn) {
                $0.write(name: className)
                $0.write(name: "link")
                $0.write(Self.link)
                $0.write(true)
                $0.write(0)
                $0.write(name: target)
            }
        }
        for field in ["int", "text", "list", "set", "dictionary", "mixed"] {
            add(.eraseColumn) {
                $0.write(name: "A")
                $0.write(name: field)
            }
        }
    }

    private mutating func addObjects() {
        for name in ["A", "B"] {
            for opcode in [ChangesetWriter.Opcode.createObject, .eraseObject] {
                add(opcode) {
                    $0.write(name: name)
                    $0.write(.int(1))
                }
            }
        }
    }

    // MARK: Fields

    private mutating func addAt(
        _ opcode: ChangesetWriter.Opcode, _ field: String, _ path: [ExhaustiveStates.Step] = [],
        of className: String = "A",
        _ write: (inout ChangesetWriter) -> Void
    ) {
        add(opcode) { changeset in
            changeset.write(name: className)
            changeset.write(.int(1))
            changeset.write(name: field)
            changeset.write(path.count)
            for step in path {
                switch step {
                case .index(let index): changeset.write(index)
                case .key(let key):
                    changeset.write(-1)
                    changeset.write(name: key)
                }
            }
            write(&changeset)
        }
    }

    private mutating func update(
        _ field: String, _ path: [ExhaustiveStates.Step] = [], type: Int, isDefault: Bool = false
    ) {
        addAt(.update, field, path) {
            $0.write(type)
            $0.write(isDefault)
        }
    }

    private mutating func addFields() {
        addAt(.update, "int", of: "B") {
            $0.payload(1)
            $0.write(false)
        }
        for (value, isDefault) in [(5, false), (6, true)] {
            addAt(.update, "int") {
                $0.payload(value)
                $0.write(isDefault)
            }
        }
        addAt(.addInteger, "int") { $0.write(1) }
        update("text", type: Self.null)
        for (value, isDefault) in [("a", false), ("b", true)] {
            addAt(.update, "text") {
                $0.write(Self.text)
                $0.write(counted: Array(value.utf8))
                $0.write(isDefault)
            }
        }
        for value in 1...2 {
            for opcode in [ChangesetWriter.Opcode.setInsert, .setErase] { addAt(opcode, "set") { $0.payload(value) } }
        }
        addAt(.clear, "set") { $0.write(Self.clears.set) }
        for (key, value) in [("a", 1), ("a", 2), ("b", 1)] {
            addAt(.update, "dictionary", [.key(key)]) {
                $0.payload(value)
                $0.write(false)
            }
        }
        update("dictionary", [.key("a")], type: Self.erased)
        addAt(.clear, "dictionary") { $0.write(Self.clears.dictionary) }
    }

    // MARK: Lists

    private mutating func addList(_ field: String, _ path: [ExhaustiveStates.Step], size: Int) {
        let (inserted, updated) = (7 + 10 * author, 8 + 10 * author)
        for index in 0...size {
            addAt(.arrayInsert, field, path + [.index(index)]) {
                $0.payload(inserted)
                $0.write(size)
            }
        }
        for index in 0..<size {
            let element = path + [ExhaustiveStates.Step.index(index)]
            addAt(.update, field, element) {
                $0.payload(updated)
                $0.write(size)
            }
            addAt(.arrayErase, field, element) { $0.write(size) }
            for destination in 0..<size where destination != index {
                addAt(.arrayMove, field, element) {
                    $0.write(destination)
                    $0.write(size)
                }
            }
        }
        addAt(.clear, field, path) { $0.write(Self.clears.list) }
    }

    // MARK: The Mixed

    private mutating func addMixed(_ elements: [ExhaustiveStates.Element]) {
        update("mixed", type: Self.null)
        update("mixed", type: Self.list)
        update("mixed", type: Self.dictionary)
        addAt(.update, "mixed") {
            $0.payload(5)
            $0.write(false)
        }
        addAt(.update, "mixed") {
            $0.write(Self.link)
            $0.write(name: "B")
            $0.write(.int(1))
            $0.write(false)
        }
        addAt(.addInteger, "mixed") { $0.write(1) }
        addAt(.clear, "mixed") { $0.write(Self.clears.dictionary) }
        addAt(.update, "mixed", [.key("a")]) {
            $0.payload(1)
            $0.write(false)
        }
        addList("mixed", [], size: elements.count)
        for (index, element) in elements.enumerated() {
            let path = [ExhaustiveStates.Step.index(index)]
            addAt(.update, "mixed", path) {
                $0.write(Self.list)
                $0.write(elements.count)
            }
            switch element {
            case .value: break
            case .list(let count): addList("mixed", path, size: count)
            case .dictionary:
                addAt(.update, "mixed", path + [.key("a")]) {
                    $0.payload(1)
                    $0.write(false)
                }
                addAt(.clear, "mixed", path) { $0.write(Self.clears.dictionary) }
            }
        }
    }
}
