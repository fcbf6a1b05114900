import AnabranchCore

/// Writes steps as instructions of the changeset at hand.
struct StepWriter {
    typealias Content = ModelDocument.Content

    private enum PathElement {
        case index(Int)
        case name(String)
    }

    /// Where an instruction acts.
    private struct Address {
        var object: Int
        var field: String
        var path: [PathElement] = []

        func index(_ index: Int) -> Address { Address(object: object, field: field, path: path + [.index(index)]) }
        func name(_ name: String) -> Address { Address(object: object, field: field, path: path + [.name(name)]) }
    }

    private static let depthMax = 6

    private let shape: RandomMerge.Shape
    private var changeset = ChangesetWriter()
    private var random = SeededRandom(seed: 0)
    /// What is added to the size or the index of the instruction at hand, against better knowledge.
    private var damage = (size: 0, index: 0)

    init(_ shape: RandomMerge.Shape) { self.shape = shape }

    mutating func takeChangeset() -> [UInt8] {
        defer { changeset = ChangesetWriter() }
        return changeset.bytes
    }

    mutating func write(_ step: Step, on document: inout ModelDocument) {
        random = SeededRandom(seed: step.seed)
        let number = random.below(shape.objects)
        let list = random.below(shape.lists)
        let isDamaged = shape.damagedOneIn.map { random.isOne(in: $0) } ?? false
        damage = isDamaged ? random.pick([(1, 0), (-1, 0), (0, 1), (0, 4)]) : (0, 0)
        let listAddress = Address(object: number, field: "list\(list)")
        switch step.action {
        case .insert, .erase, .move, .set, .addToElement, .clearList:
            editList(&document.objects[number].lists[list], at: listAddress, step.action)
        case .below: goBelow(&document.objects[number].lists[list], at: listAddress, depth: 0)
        case .setMixed: editMixed(&document.objects[number].mixed, at: Address(object: number, field: "mixed"))
        case .setEntry:
            setEntry(&document.objects[number].dictionary, at: Address(object: number, field: "dictionary"), depth: 0)
        case .clearDictionary:
            clear(Address(object: number, field: "dictionary"), collection: 2)
            document.objects[number].dictionary = .newDictionary
        case .create, .eraseObject:
            changeset.write(step.action == .create ? .createObject : .eraseObject)
            writeObject(number)
            document.renewObject(number)
        case .setValue, .setCounter, .add, .setInsert, .setErase, .clearSet: editField(step.action, of: number)
        case .addTable, .eraseTable, .addColumn, .addLink, .eraseColumn: editSchema(step.action)
        }
    }

    // MARK: Lists

    private mutating func editList(_ content: inout Content, at address: Address, _ action: Step.Action) {
        guard case .list(var elements) = content else { return setContent(&content, at: address) }
        content = .value
        defer { content = .list(elements) }
        let size = elements.count
        switch size == 0 && action != .clearList ? .insert : action {
        case .erase:
            let index = random.below(size)
            start(.arrayErase, address.index(index + damage.index))
            changeset.write(stated(size))
            elements.remove(at: index)
        case .move where size > 1:
            let index = random.below(size)
            // Now and then to where the element is.
            let distance = random.below(16 * size)
            let destination = distance == 0 ? index : (index + max(1, distance % size)) % size
            start(.arrayMove, address.index(index))
            changeset.write(destination + damage.index)
            changeset.write(stated(size))
            elements.insert(elements.remove(at: index), at: destination)
        case .set, .move:
            let index = random.below(size)
            start(.update, address.index(index + damage.index))
            elements[index] = payload()
            changeset.write(stated(size))
        case .addToElement:
            start(.addInteger, address.index(random.below(size)))
            changeset.write(random.below(9) - 4)
        case .clearList:
            clear(address, collection: 1)
            elements = []
        default:
            let index = insertionIndex(size)
            start(.arrayInsert, address.index(index + damage.index))
            elements.insert(payload(), at: index)
            changeset.write(stated(size))
        }
    }

    /// Anywhere, but more often at the ends: there the insertions of both sides meet.
    private mutating func insertionIndex(_ size: Int) -> Int {
        switch random.below(10) {
        case 0, 1: 0
        case 2, 3: size
        default: random.upTo(size)
        }
    }

    private func stated(_ size: Int) -> Int { max(0, size + damage.size) }

    // MARK: Inside containers

    /// Does something to an element of a list, or inside it.
    private mutating func goBelow(_ content: inout Content, at address: Address, depth: Int) {
        guard case .list(var elements) = content, !elements.isEmpty else {
            return editList(&content, at: address, .insert)
        }
        let index = random.below(elements.count)
        guard case .value = elements[index] else {
            content = .value
            editInside(&elements[index], at: address.index(index + damage.index), depth: depth + 1)
            content = .list(elements)
            return
        }
        editList(&content, at: address, .set)
    }

    private mutating func editInside(_ content: inout Content, at address: Address, depth: Int) {
        switch content {
        case .list:
            if depth < Self.depthMax, random.isOne(in: 3) {
                goBelow(&content, at: address, depth: depth)
            } else {
                editList(&content, at: address, random.pick([.insert, .insert, .erase, .set, .move, .clearList]))
            }
        case .dictionary: setEntry(&content, at: address, depth: depth)
        case .object(var list):
            if random.isOne(in: 2) {
                start(.update, address.name("value"))
                _ = plainPayload()
                changeset.write(random.isOne(in: 4))
            } else {
                editList(&list, at: address.name("list"), random.pick([.insert, .erase, .set]))
                content = .object(list)
            }
        case .value: setContent(&content, at: address)
        }
    }

    private mutating func setEntry(_ content: inout Content, at address: Address, depth: Int) {
        guard case .dictionary(var entries) = content else { return setContent(&content, at: address) }
        let number = random.below(entries.count)
        let entry = address.name("key\(number)")
        if case .value = entries[number] {
            setContent(&entries[number], at: entry)
        } else if depth < Self.depthMax, random.isOne(in: 2) {
            editInside(&entries[number], at: entry, depth: depth + 1)
        } else {
            setContent(&entries[number], at: entry)
        }
        content = .dictionary(entries)
    }

    private mutating func editMixed(_ content: inout Content, at address: Address) {
        if case .value = content { return setContent(&content, at: address) }
        if random.isOne(in: 8) { return setContent(&content, at: address) }
        editInside(&content, at: address, depth: 0)
    }

    /// An Update of anything but an element of a list.
    private mutating func setContent(_ content: inout Content, at address: Address) {
        start(.update, address)
        switch random.below(8) {
        case 0: content = container(.list([]), type: -5)
        case 1: content = container(.newDictionary, type: -3)
        case 2 where !address.path.isEmpty:
            changeset.write(-4)
            content = .value
        default: content = payload()
        }
        changeset.write(random.isOne(in: 6))
    }

    // MARK: Fields and schema

    private mutating func editField(_ action: Step.Action, of object: Int) {
        let counter = Address(object: object, field: "counter")
        let set = Address(object: object, field: "set")
        switch action {
        case .add:
            start(.addInteger, counter)
            changeset.write(random.below(200) - 100)
        case .setCounter:
            start(.update, counter)
            if random.isOne(in: 8) { changeset.write(0) } else { changeset.payload(random.below(1000)) }
            changeset.write(random.isOne(in: 4))
        case .setInsert, .setErase:
            start(action == .setInsert ? .setInsert : .setErase, set)
            _ = plainPayload()
        case .clearSet: clear(set, collection: 3)
        default:
            start(.update, Address(object: object, field: "value\(random.below(3))"))
            _ = plainPayload()
            changeset.write(random.isOne(in: 4))
        }
    }

    private mutating func editSchema(_ action: Step.Action) {
        let className = random.pick(["T", "T", "U", "V"])
        let field = random.pick(["list0", "value0", "value1", "added", "link"])
        switch action {
        case .addTable: changeset.addTable(className, primaryKey: "_id")
        case .eraseTable:
            changeset.write(.eraseTable)
            changeset.write(name: className)
        case .addLink:
            changeset.write(.addColumn)
            changeset.write(name: className)
            changeset.write(name: random.pick(["link", "link", "other"]))
            changeset.write(9)
            changeset.write(true)
            changeset.write(0)
            changeset.write(name: random.pick(["T", "U", "V"]))
        case .eraseColumn: changeset.eraseColumn(className, field)
        default: changeset.addColumn(className, field)
        }
    }

    // MARK: Operands

    private mutating func start(_ opcode: ChangesetWriter.Opcode, _ address: Address) {
        changeset.write(opcode)
        writeObject(address.object)
        changeset.write(name: address.field)
        changeset.write(address.path.count)
        for element in address.path {
            switch element {
            case .index(let index): changeset.write(index)
            case .name(let name):
                changeset.write(-1)
                changeset.write(name: name)
            }
        }
    }

    private mutating func clear(_ address: Address, collection: Int) {
        start(.clear, address)
        changeset.write(collection)
    }

    private mutating func writeObject(_ number: Int) {
        changeset.write(name: number < 3 ? "T" : "U")
        changeset.write(number == 1 ? .string("one") : .int(number))
    }

    private mutating func container(_ content: Content, type: Int) -> Content {
        changeset.write(type)
        return content
    }

    /// A value, or now and then a container where the document has such.
    private mutating func payload() -> Content {
        guard let distance = shape.containersOneIn, random.isOne(in: distance) else { return plainPayload() }
        switch random.below(3) {
        case 0: return container(.list([]), type: -5)
        case 1: return container(.newDictionary, type: -3)
        default: return container(.object(.list([])), type: -2)
        }
    }

    /// A value of few different ones, so that those of both sides are often equal.
    private mutating func plainPayload() -> Content {
        if shape.hasNaN, random.isOne(in: 10) {
            changeset.write(7)
            changeset.write(raw: [0, 0, 0, 0, 0, 0, 0xF8, 0x7F])
            return .value
        }
        guard shape.hasAllTypes else {
            changeset.payload(random.below(8))
            return .value
        }
        let number = random.below(3)
        let type = random.pick([0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11])
        changeset.write(type)
        switch type {
        case 1: changeset.write(number)
        case 2: changeset.write(number > 0)
        case 3, 4: changeset.write(counted: Array("text \(number)".utf8))
        case 5:
            changeset.write(number)
            changeset.write(0)
        case 6: changeset.write(raw: [0, 0, UInt8(number), 0])
        case 7: changeset.write(raw: [0, 0, 0, 0, 0, 0, UInt8(number), 0])
        case 8:
            changeset.write(number * 10)
            changeset.write(-1)
            changeset.write(0)
        case 9: writeObject(number)
        case 10: changeset.write(raw: Array(repeating: UInt8(number), count: 12))
        case 11: changeset.write(raw: Array(repeating: UInt8(number), count: 16))
        default: break
        }
        return .value
    }
}
